// Chapter 11: training.

figure("training-curve", ["step"], (root) => {
  const { log, baselines, baselines_missing, snapshots } = chapterData("training");
  const held = log
    .filter((line) => typeof line.held_out_nats_per_character === "number")
    .map((line) => [line.step, line.held_out_nats_per_character]);
  const train =
    page.data.model.tokenizer === "char"
      ? log.filter((line) => typeof line.loss === "number").map((line) => [line.step, line.loss])
      : [];
  if (!held.length) {
    note(root, "This run has no log of its training (log.jsonl), so its curve can't be drawn.");
    return null;
  }
  const series = [{ name: "held-out text", tone: "ink", points: held, marks: true }];
  if (train.length) series.push({ name: "training text", tone: "muted", points: train, dashed: true });
  key(root, series);
  let show;
  const levels = baselines.map((baseline) => ({ name: baseline.name, y: baseline.nats_per_character }));
  const update = chart(root, {
    label: "Loss over the training, with n-gram baselines",
    height: 380,
    series,
    levels,
    xLow: 0,
    yLow: 0.92 * Math.min(...held.map((point) => point[1]), ...levels.map((level) => level.y)),
    xLabel: "step",
    yLabel: "loss, nats per character",
    describe: (s, i) =>
      show([
        `${series[s].name}, step ${integer(series[s].points[i][0])}: `,
        strong(number(series[s].points[i][1], 4)),
        " nats per character",
      ]),
  });
  show = readout(root);
  const final = Math.min(...held.map((point) => point[1]));
  const best = [...baselines].sort((a, b) => a.nats_per_character - b.nats_per_character)[0];
  show(
    best
      ? [
          "Lowest on held-out text: ",
          strong(number(final, 4)),
          ` nats per character; the best of counting, ${best.name}: `,
          strong(number(best.nats_per_character, 4)),
          ".",
        ]
      : ["Lowest on held-out text: ", strong(number(final, 4)), " nats per character."],
  );
  if (baselines_missing) note(root, `The n-gram baselines can't be shown: ${baselines_missing}.`);
  return () => {
    const at = snapshots[page.state.step];
    update({
      verticals:
        at && at.step !== null && snapshots.length > 1 ? [{ x: at.step, name: stepName(page.state.step) }] : [],
    });
  };
});

figure("training-samples", ["step"], (root) => {
  const { snapshots, unusable } = chapterData("training");
  for (const reason of unusable) root.append(el("p", { class: "notice" }, `A snapshot is left out: ${reason}.`));
  if (snapshots.length < 2)
    note(root, "This run has no snapshots of its training, so there is only the finished model to read.");
  const rows = snapshots.map((snapshot, i) =>
    el(
      "li",
      {},
      el("button", { type: "button", onclick: () => choose({ step: i }) }, stepName(i)),
      el("p", { class: "sample" }, el("span", {}, page.data.text.given.slice(-40)), snapshot.sample),
    ),
  );
  root.append(el("ol", { class: "samples" }, rows));
  return () => rows.forEach((row, i) => row.classList.toggle("chosen", i === page.state.step));
});
