// Chapter 9: blocks.

const isPre = () => page.data.model.norm === "pre";

// x, the change, their sum and the normalised vector of a part ("attention" or "ffn") of a block.
function partOf(layer, part, token) {
  const vector = (name) => tensor(`blocks.${layer}.${name}`).row(token);
  const between = isPre() ? "residual_attention" : "norm_attention";
  return {
    x: part === "attention" ? blockInput(layer, token) : vector(between),
    change: vector(`${part}.out`),
    sum: vector(`residual_${part}`),
    normalised: vector(`norm_${part}`),
  };
}

const PARTS = { attention: "attention", ffn: "feed-forward" };

// Choosers of a token, a block and one of its parts; change(part) is called when another part is chosen.
function choosePart(root, change) {
  chooseToken(root);
  const bar = controls(root);
  chooseLayer(bar);
  choice(bar, { label: "Part", options: Object.values(PARTS), change: (i) => change(Object.keys(PARTS)[i]) });
}

figure("blocks-parameters", [], (root) => {
  const { embedding, attention, ffn, norms, block, rest, total } = chapterData("blocks").parameters;
  const { n_layers } = page.data.model;
  partTitle(root, "Numbers to learn");
  const showBars = bars(root, { label: "Numbers to learn", format: integer });
  const blocks = Array.from({ length: n_layers }, (_, i) => ({ label: `block ${i + 1}`, value: block }));
  const others = rest ? [{ label: "all else", value: rest }] : [];
  showBars([{ label: "embedding table", value: embedding }, ...blocks, ...others]);
  const large = `${integer(attention)} in attention, ${integer(ffn)} in the feed-forward network`;
  const terms = `${integer(embedding)} + ${n_layers} × ${integer(block)}${rest ? ` + ${integer(rest)}` : ""}`;
  note(
    root,
    `Each block: ${large}, ${integer(norms)} in its two LayerNorms. ${terms} = `,
    strong(integer(total)),
    ".",
  );
});

figure("blocks-guesses", ["token"], (root) => {
  const { guesses } = chapterData("blocks");
  const { tokens, ids } = page.data.text;
  chooseToken(root, "After which token?");
  const names = guesses.map((_, s) => (s === 0 ? "before block 1" : `after block ${s}`));
  const list = el("ol", { class: "guesses" });
  root.append(list);
  const predicted = tokens.length - 1; // after how many tokens the next one is known
  let showCells = () => {};
  if (predicted > 0) {
    partTitle(
      root,
      "Probability of the token that really came next ",
      el("small", {}, "a column after each token"),
    );
    const scale = amountScale(1, "probability");
    showCells = grid(root, {
      label: "Probability of the true next token after each block",
      rows: guesses.length,
      columns: predicted,
      largestCell: 30,
      cellHeight: 22,
      rowLabels: names,
      columnLabels: tokens.slice(0, predicted),
      color: (r, c) => scale.color(guesses[r][c].target),
      pick: (r, c) => choose({ token: c }),
      describe: (r, c) => {
        const what = ["After ", tokenName(tokens[c]), ` at ${c} came `, tokenName(tokens[c + 1])];
        show([...what, `; ${names[r]} the model gives it `, strong(percent(guesses[r][c].target))]);
      },
    });
    legend(root, scale);
    const show = readout(root);
    showCells({}, [guesses.length - 1, 0]);
  }
  const guess = (id, p, next) => {
    const share = { "--share": `${100 * p}%` };
    const name = el("b", {}, page.data.vocabulary[id]);
    return el("span", { class: id === next ? "guess true" : "guess", style: share }, name, ` ${percent(p)}`);
  };
  return () => {
    const { token } = page.state;
    list.replaceChildren(
      ...guesses.map((rows, s) => {
        const { tokens: found, probabilities } = rows[token];
        const row = found.map((id, i) => guess(id, probabilities[i], ids[token + 1]));
        return el(
          "li",
          {},
          el("span", { class: "guess-stage" }, names[s]),
          el("span", { class: "guess-list" }, row),
        );
      }),
    );
    showCells({ chosen: { column: token < predicted ? token : -1 } });
  };
});

figure("blocks-stream", ["token"], (root) => {
  chooseToken(root);
  partTitle(
    root,
    "What each part of each block adds ",
    el("small", {}, "length of the change, on that of the vector"),
  );
  const showBars = bars(root, { label: "Length of the change that each part makes" });
  return () => {
    const items = [];
    for (let layer = 0; layer < page.data.model.n_layers; layer++) {
      for (const [part, name] of Object.entries(PARTS)) {
        const { x, change } = partOf(layer, part, page.state.token);
        const [value, mark] = [length(change), length(x)];
        items.push({ label: `${layer + 1} ${name}`, value, mark, text: `${number(value)} on ${number(mark)}` });
      }
    }
    showBars(items, Math.max(...items.flatMap(({ value, mark }) => [value, mark])));
  };
});

figure("blocks-sum", ["token", "layer"], (root) => {
  let part = "attention";
  let vectors = null;
  choosePart(root, (chosen) => {
    part = chosen;
    draw();
  });
  const showStrips = strips(root, {
    label: "Input, change and sum",
    width: page.data.model.d_model,
    lines: 3,
    cellHeight: 24,
    describe: (r, c) => {
      const terms = `${number(vectors.x[c])} + ${inside(vectors.change[c])}`;
      show([`In dimension ${c}: x + change = ${terms} = `, strong(number(vectors.sum[c]))]);
    },
  });
  const showScale = legend(root);
  partTitle(root, "Lengths of the three vectors");
  const showBars = bars(root, { label: "Lengths" });
  const show = readout(root);
  function draw() {
    vectors = partOf(page.state.layer, part, page.state.token);
    const lines = ["x", "change", "sum"].map((label) => ({ label, values: vectors[label] }));
    showScale(showStrips(lines, [1, largestAt(vectors.change)]), "value");
    showBars(lines.map(({ label, values }) => ({ label, value: length(values) })));
  }
  return draw;
});

function meanAndVariance(values) {
  const average = mean(values);
  return { average, variance: mean(values.map((x) => (x - average) ** 2)) };
}

figure("blocks-norm", ["token", "layer"], (root) => {
  const { d_model, layer_norm_eps: epsilon } = page.data.model;
  const { norms } = chapterData("blocks");
  let part = "attention";
  choosePart(root, (chosen) => {
    part = chosen;
    draw();
  });
  const showStrips = strips(root, {
    label: "The vector before and after LayerNorm",
    width: d_model,
    lines: 3,
    cellHeight: 26,
    describe: explain,
  });
  const showScale = legend(root);
  const table = el("div", { class: "scroll" });
  root.append(table);
  const show = readout(root);
  let lines = [];
  let gain = [];
  let shift = [];

  function explain(r, c) {
    const [before, normal, after] = lines.map(({ values }) => values[c]);
    const { average, variance } = meanAndVariance(lines[0].values);
    const centred = `(${number(before)} − ${inside(average)})`;
    const deviation = `√(${number(variance)} + ${number(epsilon, 2)})`;
    const rescaled = `· ${inside(gain[c])} + ${inside(shift[c])}`;
    show(
      [`(x − μ) / √(σ² + ε) · γ + β = ${centred} / ${deviation} ${rescaled} = `, strong(number(after))],
      `Dimension ${c} of ${d_model}; without the gain and the shift it would be ${number(normal)}.`,
    );
  }

  function draw() {
    const { token, layer } = page.state;
    const { x, sum: added, normalised } = partOf(layer, part, token);
    const norm = norms[layer][`norm_${part}`];
    gain = unpackOnce(norm.gain).numbers;
    shift = unpackOnce(norm.shift).numbers;
    const before = isPre() ? x : added;
    const { average, variance } = meanAndVariance(before);
    lines = [
      { label: "before", values: before },
      {
        label: "mean 0, variance 1",
        values: before.map((value) => (value - average) / Math.sqrt(variance + epsilon)),
      },
      { label: "· γ + β", values: normalised },
    ];
    showScale(showStrips(lines, [2, largestAt(normalised)]), "value");
    table.replaceChildren(momentsTable(lines));
  }
  return draw;
});

// The mean, standard deviation and variance of each line's values.
function momentsTable(lines) {
  const text = (x) => number(x, Math.abs(x) < 1e-5 ? 2 : 3); // a mean of zero, but for rounding
  const row = ({ label, values }) => {
    const { average, variance } = meanAndVariance(values);
    const cells = [average, Math.sqrt(variance), variance].map((x) => el("td", {}, text(x)));
    return el("tr", {}, el("td", {}, label), cells);
  };
  const names = ["", "mean", "standard deviation", "variance"].map((name) => el("th", {}, name));
  return el("table", {}, el("thead", {}, el("tr", {}, names)), el("tbody", {}, lines.map(row)));
}

figure("blocks-ffn", ["token", "layer"], (root) => {
  const { d_ff, activation } = page.data.model;
  const { tokens } = page.data.text;
  chooseToken(root);
  chooseLayer(controls(root));
  const across = [64, 48, 32, 24, 16, 8].find((n) => d_ff % n === 0) || Math.ceil(Math.sqrt(d_ff));
  const title = partTitle(root);
  const formula = activation === "relu" ? "max(0, w · x + b)" : "gelu(w · x + b)";
  let hidden = null; // (T, d_ff)
  let units = [];
  const showCells = grid(root, {
    label: "Hidden units of the feed-forward network",
    rows: Math.ceil(d_ff / across),
    columns: across,
    largestCell: 16,
    color: () => "transparent",
    describe: (r, c) => {
      const i = r * across + c;
      if (i >= d_ff) return;
      const all = tokens.map((_, t) => hidden.at(t, i));
      const most = ranked(all)
        .slice(0, 3)
        .filter((t) => all[t] > 0);
      const places = most.map((t, j) => [j ? ", " : "", tokenName(tokens[t]), ` at ${t} (${number(all[t])})`]);
      show(
        [
          `Unit ${i}: ${formula} = `,
          strong(number(units[i])),
          units[i] ? "" : ": it does not react to this token",
        ],
        most.length ? ["In your text it reacts most to ", places] : "It reacts to no token of your text.",
      );
    },
  });
  const showScale = legend(root);
  const show = readout(root);
  return () => {
    const { token, layer } = page.state;
    hidden = tensor(`blocks.${layer}.ffn.hidden`);
    units = hidden.row(token);
    const lit = units.filter((x) => x > 0).length;
    const where = el("small", {}, "at ", tokenName(tokens[token]), ` in block ${layer + 1}`);
    title.replaceChildren(`${integer(lit)} of ${integer(d_ff)} units are lit `, where);
    const scale = amountScale(largestSize(hidden.numbers), "activation", "accent");
    const most = largestAt(units);
    const color = (r, c) => {
      const i = r * across + c;
      return i < d_ff ? scale.color(Math.max(0, units[i])) : "transparent";
    };
    showCells({ color }, [Math.floor(most / across), most % across]);
    showScale(scale);
  };
});
