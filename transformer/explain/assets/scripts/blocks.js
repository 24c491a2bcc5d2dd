// Chapter 9: blocks.

const isPre = () => page.data.model.norm === "pre";

// x, the change, their sum and the normalised vector of a part ("attention" or "ffn") of a block.
function partOf(layer, part, token) {
  const sum = tensor(`blocks.${layer}.residual_${part}`).row(token);
  const change = tensor(`blocks.${layer}.${part}.out`).row(token);
  const normalised = tensor(`blocks.${layer}.norm_${part}`).row(token);
  let x = blockInput(layer, token);
  if (part === "ffn")
    x = tensor(`blocks.${layer}.${isPre() ? "residual_attention" : "norm_attention"}`).row(token);
  return { x, change, sum, normalised };
}

const PARTS = { attention: "attention", ffn: "feed-forward" };

function choosePart(root, change) {
  return choice(root, {
    label: "Part",
    options: Object.values(PARTS),
    value: 0,
    change: (i) => change(Object.keys(PARTS)[i]),
  });
}

figure("blocks-parameters", [], (root) => {
  const { parameters } = chapterData("blocks");
  const { n_layers } = page.data.model;
  const update = bars(root, { label: "Numbers learned by each part", format: integer });
  const items = [
    { label: "embedding table", value: parameters.embedding },
    ...Array.from({ length: n_layers }, (_, i) => ({ label: `block ${i + 1}`, value: parameters.block })),
  ];
  if (parameters.rest) items.push({ label: "all else", value: parameters.rest });
  update(items);
  note(
    root,
    `Each block: ${integer(parameters.attention)} in attention, ${integer(parameters.ffn)} in the feed-forward network, ${integer(parameters.norms)} in its two LayerNorms. `,
    `${integer(parameters.embedding)} + ${n_layers} × ${integer(parameters.block)}${parameters.rest ? ` + ${integer(parameters.rest)}` : ""} = `,
    strong(integer(parameters.total)),
    ".",
  );
  return null;
});

figure("blocks-guesses", ["token"], (root) => {
  const { guesses } = chapterData("blocks");
  const { tokens, ids } = page.data.text;
  const set = chooseToken(root, "After which token?");
  const names = guesses.map((_, s) => (s === 0 ? "before block 1" : `after block ${s}`));
  const body = el("ol", { class: "guesses" });
  root.append(body, el("p", { class: "part-title" }, "Probability of the token that really came next"));
  const scale = amountScale(1, "probability");
  const n = tokens.length - 1;
  let view = null;
  let show;
  if (n > 0) {
    view = grid(root, {
      label: "Probability of the true next token after each block",
      rows: guesses.length,
      columns: n,
      largestCell: 30,
      cellHeight: 22,
      rowLabels: names,
      columnLabels: tokens.slice(0, n),
      color: (r, c) => scale.color(guesses[r][c].target),
      pick: (r, c) => choose({ token: c }),
      describe: (r, c) =>
        show([
          "After ",
          tokenName(tokens[c]),
          ` at ${c} came `,
          tokenName(tokens[c + 1]),
          `; ${names[r]} the model gives it `,
          strong(percent(guesses[r][c].target)),
        ]),
    });
    legend(root, scale);
    show = readout(root);
    view.update({}, [guesses.length - 1, 0]);
  }
  return () => {
    const t = page.state.token;
    const next = ids[t + 1];
    set();
    body.replaceChildren(
      ...guesses.map((rows, s) =>
        el(
          "li",
          {},
          el("span", { class: "guess-stage" }, names[s]),
          el(
            "span",
            { class: "guess-list" },
            rows[t].tokens.map((id, i) =>
              el(
                "span",
                {
                  class: id === next ? "guess true" : "guess",
                  style: { "--share": `${100 * rows[t].probabilities[i]}%` },
                },
                el("b", {}, page.data.vocabulary[id]),
                ` ${percent(rows[t].probabilities[i])}`,
              ),
            ),
          ),
        ),
      ),
    );
    if (view) view.update({ chosen: { column: t < n ? t : undefined } });
  };
});

figure("blocks-stream", ["token"], (root) => {
  const set = chooseToken(root);
  const update = bars(root, { label: "Length of the change that each part makes" });
  return () => {
    set();
    const items = [];
    for (let layer = 0; layer < page.data.model.n_layers; layer++) {
      for (const [part, name] of Object.entries(PARTS)) {
        const { x, change } = partOf(layer, part, page.state.token);
        items.push({
          label: `block ${layer + 1}, ${name}`,
          value: length(change),
          mark: length(x),
          text: `${number(length(change))} on ${number(length(x))}`,
        });
      }
    }
    update(items, Math.max(...items.map((item) => Math.max(item.value, item.mark))));
  };
});

figure("blocks-sum", ["token", "layer"], (root) => {
  const width = page.data.model.d_model;
  const set = chooseToken(root);
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  let part = "attention";
  let vectors = {};
  let show;
  choosePart(bar, (name) => {
    part = name;
    draw();
  });
  const view = strips(root, {
    label: "Input, change and sum",
    width,
    lines: 3,
    cellHeight: 24,
    describe: (r, c) =>
      show([
        `Number ${c + 1}: x + change = ${number(vectors.x[c])} + ${inside(vectors.change[c])} = `,
        strong(number(vectors.sum[c])),
      ]),
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  root.append(el("p", { class: "part-title" }, "Lengths of the three vectors"));
  const lengths = bars(root, { label: "Lengths" });
  show = readout(root);
  function draw() {
    vectors = partOf(page.state.layer, part, page.state.token);
    const { x, change, sum } = vectors;
    const scale = view.update(
      [
        { label: "x", values: x },
        { label: "change", values: change },
        { label: "sum", values: sum },
      ],
      [1, largestAt(change)],
    );
    scalePlace.replaceChildren(legend(null, scale, "value"));
    lengths(
      [
        ["x", x],
        ["change", change],
        ["sum", sum],
      ].map(([label, values]) => ({ label, value: length(values) })),
    );
  }
  return () => {
    set();
    setLayer();
    draw();
  };
});

function meanAndDeviation(values) {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length;
  return { mean, variance, deviation: Math.sqrt(variance) };
}

figure("blocks-norm", ["token", "layer"], (root) => {
  const width = page.data.model.d_model;
  const epsilon = page.data.model.layer_norm_eps;
  const { norms } = chapterData("blocks");
  const set = chooseToken(root);
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  let part = "attention";
  let rows = [];
  let about = {};
  let gain = [];
  let shift = [];
  let show;
  choosePart(bar, (name) => {
    part = name;
    draw();
  });
  const view = strips(root, {
    label: "The vector before and after LayerNorm",
    width,
    lines: 3,
    cellHeight: 26,
    describe: explain,
  });
  const scalePlace = el("div");
  const table = el("div", { class: "scroll" });
  root.append(scalePlace, table);
  show = readout(root);
  function explain(r, c) {
    show(
      [
        `(x − μ) / √(σ² + ε) · γ + β = (${number(rows[0][c])} − ${inside(about.mean)}) / √(${number(about.variance)} + ${number(epsilon, 2)}) · ${inside(gain[c])} + ${inside(shift[c])} = `,
        strong(number(rows[2][c])),
      ],
      `Number ${c + 1} of ${width}; without the gain and the shift it would be ${number(rows[1][c])}.`,
    );
  }
  function draw() {
    const { token, layer } = page.state;
    const vectors = partOf(layer, part, token);
    const norm = norms[layer][`norm_${part}`];
    gain = unpackOnce(norm.gain).numbers;
    shift = unpackOnce(norm.shift).numbers;
    const before = isPre() ? vectors.x : vectors.sum;
    about = meanAndDeviation(before);
    rows = [before, before.map((x) => (x - about.mean) / Math.sqrt(about.variance + epsilon)), vectors.normalised];
    const names = ["before", "mean 0, variance 1", "· γ + β"];
    const scale = view.update(
      rows.map((values, i) => ({ label: names[i], values })),
      [2, largestAt(rows[2])],
    );
    scalePlace.replaceChildren(legend(null, scale, "value"));
    table.replaceChildren(
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["", "mean", "standard deviation", "variance"].map((name) => el("th", {}, name)),
          ),
        ),
        el(
          "tbody",
          {},
          rows.map((values, i) => {
            const { mean, deviation, variance } = meanAndDeviation(values);
            return el(
              "tr",
              {},
              el("td", {}, names[i]),
              [mean, deviation, variance].map((x) =>
                el("td", {}, Math.abs(x) < 1e-5 ? `${number(x, 2)}` : number(x)),
              ),
            );
          }),
        ),
      ),
    );
  }
  return () => {
    set();
    setLayer();
    draw();
  };
});

figure("blocks-ffn", ["token", "layer"], (root) => {
  const { d_ff, activation } = page.data.model;
  const { tokens } = page.data.text;
  const set = chooseToken(root);
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const across = [64, 48, 32, 24, 16, 8].find((n) => d_ff % n === 0) || Math.ceil(Math.sqrt(d_ff));
  const down = Math.ceil(d_ff / across);
  const title = el("p", { class: "part-title" });
  root.append(title);
  let units = [];
  let show;
  const view = grid(root, {
    label: "Hidden units of the feed-forward network",
    rows: down,
    columns: across,
    largestCell: 16,
    color: () => "transparent",
    describe: (r, c) => {
      const i = r * across + c;
      if (i >= d_ff) return;
      const all = tokens.map((_, t) => tensor(`blocks.${page.state.layer}.ffn.hidden`).at(t, i));
      const most = ranked(all)
        .slice(0, 3)
        .filter((t) => all[t] > 0);
      show(
        [
          `Unit ${i + 1}: ${activation === "relu" ? "max(0, w · x + b)" : "gelu(w · x + b)"} = `,
          strong(number(units[i])),
          units[i] === 0 ? ": it does not react to this token" : "",
        ],
        most.length
          ? [
              "In your text it reacts most to ",
              most.map((t, j) => [j ? ", " : "", tokenName(tokens[t]), ` at ${t} (${number(all[t])})`]),
            ]
          : "It reacts to no token of your text.",
      );
    },
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  return () => {
    const { token, layer } = page.state;
    const all = tensor(`blocks.${layer}.ffn.hidden`);
    set();
    setLayer();
    units = all.row(token);
    const lit = units.filter((x) => x > 0).length;
    const scale = amountScale(largestSize(all.numbers), "activation", "accent");
    title.replaceChildren(
      `${integer(lit)} of ${integer(d_ff)} units are lit `,
      el("small", {}, `at `, tokenName(tokens[token]), ` in block ${layer + 1}`),
    );
    const at = largestAt(units);
    view.update(
      {
        color: (r, c) => (r * across + c < d_ff ? scale.color(Math.max(0, units[r * across + c])) : "transparent"),
      },
      [Math.floor(at / across), at % across],
    );
    scalePlace.replaceChildren(legend(null, scale));
  };
});
