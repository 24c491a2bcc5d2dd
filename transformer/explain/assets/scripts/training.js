// Chapter 11: training.

// The points [step, loss] of a kind of loss in the log.
function logged(log, name) {
  return log.filter((line) => typeof line[name] === "number").map((line) => [line.step, line[name]]);
}

figure("training-curve", ["step"], (root) => {
  const { log, baselines, baselines_missing, snapshots } = chapterData("training");
  const held = logged(log, "held_out_nats_per_character");
  if (!held.length) {
    note(root, "This run has no log of its training (log.jsonl), so its curve can't be drawn.");
    return null;
  }
  const series = [{ name: "held out", tone: "ink", points: held, marks: true }];
  const train = page.data.model.tokenizer === "char" ? logged(log, "loss") : []; // else it is per token
  if (train.length) series.push({ name: "training", tone: "muted", points: train, dashed: true });
  chartKey(root, series);
  const levels = baselines.map((baseline) => ({ name: baseline.name, y: baseline.nats_per_character }));
  const losses = [...series.flatMap(({ points }) => points.map(([, y]) => y)), ...levels.map(({ y }) => y)];
  const showChart = chart(root, {
    label: "Loss over the training, with n-gram baselines",
    height: 380,
    series,
    levels,
    xLow: 0,
    yLow: 0.92 * Math.min(...losses),
    xLabel: "step",
    yLabel: "loss, nats per character",
    describe: (s, i) => {
      const [step, loss] = series[s].points[i];
      show([`${series[s].name}, step ${integer(step)}: `, strong(number(loss, 4)), " nats per character"]);
    },
  });
  const show = readout(root);
  const lowest = strong(number(Math.min(...held.map(([, loss]) => loss)), 4));
  const [best] = [...levels].sort((a, b) => a.y - b.y);
  show([
    ...["Lowest held out: ", lowest, " nats per character"],
    ...(best ? [`; the best of counting, ${best.name}: `, strong(number(best.y, 4)), "."] : ["."]),
  ]);
  if (baselines_missing) note(root, `The n-gram baselines can't be shown: ${baselines_missing}.`);
  return () => {
    const { step } = snapshots[page.state.step];
    const dated = step !== null && snapshots.length > 1;
    showChart({ verticals: dated ? [{ x: step, name: stepName(page.state.step) }] : [] });
  };
});

figure("training-samples", ["step"], (root) => {
  const { snapshots, unusable } = chapterData("training");
  for (const reason of unusable) root.append(el("p", { class: "notice" }, `A snapshot is left out: ${reason}.`));
  if (snapshots.length < 2) {
    note(root, "This run has no snapshots of its training, so there is only the finished model to read.");
  }
  const rows = snapshots.map(({ sample }, i) =>
    el(
      "li",
      {},
      el("button", { type: "button", onclick: () => choose({ step: i }) }, stepName(i)),
      el("p", { class: "sample" }, el("span", {}, page.data.text.given.slice(-40)), sample),
    ),
  );
  root.append(el("ol", { class: "samples" }, rows));
  return () => rows.forEach((row, i) => row.classList.toggle("chosen", i === page.state.step));
});
