// Chapter 1: the guess.

// Probabilities of the next token at a snapshot.
function nextProbabilities(step) {
  const snapshot = chapterData("prediction").snapshots[step];
  return softmax(unpackOnce(snapshot.logits).numbers);
}

figure("reading", [], (root) => {
  const { text } = page.data;
  root.append(
    el(
      "p",
      { class: "part-title" },
      "The text that was read ",
      el("small", {}, `${text.tokens.length} token${text.tokens.length > 1 ? "s" : ""}`),
    ),
  );
  if (text.notice) root.append(el("p", { class: "notice", role: "alert" }, text.notice));
  const set = chooseToken(root, "");
  watch(["token"], set);
  return set;
});

figure("overview", ["token"], (root) => {
  const { model, text, vocabulary } = page.data;
  const list = el("ol", { class: "overview" });
  root.append(list);
  return () => {
    const { token } = page.state;
    const probabilities = softmax(tensor("logits").row(token));
    const best = ranked(probabilities)[0];
    const steps = [
      ["tokens", "a token", [tokenName(text.tokens[token]), ` is ${text.ids[token]}`]],
      ["embedding", "its vector", `${integer(model.d_model)} numbers`],
      ["positions", "its place", `+ position ${token}`],
      ["blocks", `${model.n_layers} times`, "look, think"],
      ["output", "scores", `${integer(vocabulary.length)} logits`],
      ["prediction", "the guess", [tokenName(vocabulary[best]), ` ${percent(probabilities[best])}`]],
    ];
    list.replaceChildren(
      ...steps.map(([chapter, label, content]) =>
        el("li", {}, el("a", { href: `#${chapter}` }, el("small", {}, label), el("span", {}, content))),
      ),
    );
  };
});

figure("prediction-bars", ["step"], (root) => {
  const title = el("p", { class: "part-title" });
  root.append(title);
  const update = bars(root, { label: "Probabilities of the next token", format: percent });
  return () => {
    const probabilities = nextProbabilities(page.state.step);
    const order = ranked(probabilities).slice(0, 10);
    const uniform = 1 / probabilities.length;
    const rest = 1 - order.reduce((sum, i) => sum + probabilities[i], 0);
    const others = probabilities.length - order.length;
    title.replaceChildren(
      "After ",
      tokenName([...page.data.text.tokens.slice(-24).join("")].slice(-28).join("")),
      " comes … ",
      el("small", {}, stepName(page.state.step)),
    );
    const items = order.map((i) => ({ label: page.data.vocabulary[i], value: probabilities[i], mark: uniform }));
    if (others > 0) items.push({ label: `${integer(others)} others`, value: Math.max(0, rest), muted: true });
    update(items);
  };
});

figure("prediction-history", ["step"], (root) => {
  const { snapshots, uniform_nats } = chapterData("prediction");
  if (snapshots.length < 2) {
    note(
      root,
      "This run has no snapshots of its training, so only the finished model can be shown. ",
      "A run of transformer train keeps them in its snapshots folder.",
    );
    return null;
  }
  const all = snapshots.map((_, i) => nextProbabilities(i));
  const order = ranked(all.at(-1)).slice(0, 8);
  const first = ranked(all[0])[0];
  if (!order.includes(first)) order.push(first);
  const scale = amountScale(1, "probability");
  let show;
  const view = grid(root, {
    label: "Probability of each token over the training",
    rows: order.length,
    columns: snapshots.length,
    largestCell: 44,
    cellHeight: 24,
    rowLabels: order.map((i) => page.data.vocabulary[i]),
    columnLabels: snapshots.map((s) => (s.step === null ? "end" : String(s.step))),
    color: (r, c) => scale.color(all[c][order[r]]),
    pick: (r, c) => choose({ step: c }),
    describe: (r, c) => {
      const entropy = -all[c].reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0);
      show(
        ["p(", tokenName(page.data.vocabulary[order[r]]), `) = ${percent(all[c][order[r]])} at ${stepName(c)}`],
        `Uncertainty over all tokens: ${number(entropy)} nats, as if choosing among ${number(Math.exp(entropy))} equally likely ones (untrained, at most ln ${integer(page.data.model.vocab_size)} = ${number(uniform_nats)})`,
      );
    },
  });
  legend(root, scale);
  show = readout(root);
  view.update({}, [0, snapshots.length - 1]);
  return () => view.update({ chosen: { column: page.state.step } });
});
