// Chapter 1: the guess.

// Probabilities of the next token at a snapshot.
function nextProbabilities(step) {
  return softmax(unpackOnce(chapterData("prediction").snapshots[step].logits).numbers);
}

figure("reading", [], (root) => {
  const { tokens, notice } = page.data.text;
  const count = `${tokens.length} token${tokens.length > 1 ? "s" : ""}`;
  partTitle(root, "The text that was read ", el("small", {}, count));
  if (notice) root.append(el("p", { class: "notice", role: "alert" }, notice));
  chooseToken(root, "");
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
      ["blocks", `${model.n_layers} block${model.n_layers > 1 ? "s" : ""}`, "look, think"],
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
  const { text, vocabulary } = page.data;
  const title = partTitle(root);
  const showBars = bars(root, { label: "Probabilities of the next token", format: percent });
  const end = [...text.tokens.slice(-24).join("")].slice(-28).join("");
  return () => {
    const probabilities = nextProbabilities(page.state.step);
    const blind = 1 / probabilities.length;
    const order = ranked(probabilities).slice(0, 10);
    const others = probabilities.length - order.length;
    title.replaceChildren("After ", tokenName(end), " comes … ", el("small", {}, stepName(page.state.step)));
    const items = order.map((i) => ({ label: vocabulary[i], value: probabilities[i], mark: blind }));
    if (others > 0) {
      const value = Math.max(0, 1 - sum(order.map((i) => probabilities[i])));
      items.push({ label: `${integer(others)} others`, value, mark: others * blind, muted: true });
    }
    showBars(items, 1);
  };
});

figure("prediction-history", ["step"], (root) => {
  const { snapshots, uniform_nats } = chapterData("prediction");
  const { vocabulary, model } = page.data;
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
  const scale = amountScale(Math.max(...all.flatMap((p) => order.map((i) => p[i]))), "probability");
  partTitle(
    root,
    "The likeliest next tokens ",
    el("small", {}, "a row for each token, a column for each step of training"),
  );
  const showCells = grid(root, {
    label: "Probability of each token over the training",
    rows: order.length,
    columns: snapshots.length,
    largestCell: 44,
    cellHeight: 24,
    rowLabels: order.map((i) => vocabulary[i]),
    columnLabels: snapshots.map((s) => (s.step === null ? "end" : String(s.step))),
    color: (r, c) => scale.color(all[c][order[r]]),
    pick: (r, c) => choose({ step: c }),
    describe: (r, c) => {
      const nats = entropy(all[c]);
      show(
        ["p(", tokenName(vocabulary[order[r]]), `) = ${percent(all[c][order[r]])} at ${stepName(c)}`],
        `All tokens together: as open as a choice among ${number(Math.exp(nats))} equally likely ones ` +
          `(${number(nats)} nats; a blind guess among all ${integer(model.vocab_size)}: ${number(uniform_nats)} nats).`,
      );
    },
  });
  legend(root, scale);
  const show = readout(root);
  showCells({}, [0, snapshots.length - 1]);
  return () => showCells({ chosen: { column: page.state.step } });
});
