// Chapter 7: several heads.

// The attention weights of a head at the chosen snapshot: pattern(layer, head, query, key).
function patternAt(step) {
  const { snapshots } = chapterData("heads");
  if (step === snapshots.length - 1) return (l, h, t, s) => tensor(`blocks.${l}.attention.pattern`).at(h, t, s);
  const packed = unpackOnce(snapshots[step].patterns);
  const n = page.data.text.tokens.length;
  if (!page.data.model.causal) return (l, h, t, s) => packed.at(l, h, t * n + s);
  return (l, h, t, s) => (s > t ? 0 : packed.at(l, h, (t * (t + 1)) / 2 + s));
}

figure("heads-grid", ["layer", "head", "step", "token"], (root) => {
  const { n_layers, n_heads, causal } = page.data.model;
  const { tokens } = page.data.text;
  const n = tokens.length;
  const scale = amountScale(1, "weight");
  const title = el("p", { class: "part-title" });
  const small = [];
  const table = el("div", {
    class: "thumbnails",
    style: { "--heads": n_heads },
    role: "group",
    "aria-label": "All heads",
  });
  for (let l = 0; l < n_layers; l++) {
    table.append(el("span", { class: "thumbnail-label" }, `Block ${l + 1}`));
    for (let h = 0; h < n_heads; h++) {
      const canvas = el("canvas", { width: n, height: n });
      const node = el(
        "button",
        {
          type: "button",
          class: "thumbnail",
          "aria-label": `Block ${l + 1}, head ${h + 1}`,
          onclick: () => choose({ layer: l, head: h }),
        },
        canvas,
      );
      small.push({ l, h, canvas, node });
      table.append(node);
    }
  }
  root.append(table, title);
  let show, pattern;
  const view = grid(root, {
    label: "Attention weights of the chosen head",
    rows: n,
    columns: n,
    largestCell: 20,
    rowLabels: tokens,
    columnLabels: tokens,
    color: () => "transparent",
    hidden: causal ? (r, c) => c > r : null,
    pick: (r) => choose({ token: r }),
    describe: (r, c) =>
      show(
        causal && c > r
          ? "Later tokens get exactly no weight."
          : [
              Q(tokens[r]),
              ` (at ${r}) gives `,
              strong(percent(pattern(page.state.layer, page.state.head, r, c))),
              " of its attention to ",
              K(tokens[c]),
              ` (at ${c})`,
            ],
      ),
  });
  legend(root, scale);
  show = readout(root);
  const paint = () => {
    const ink = palette.ink;
    const paper = palette.paper;
    for (const { l, h, canvas, node } of small) {
      const context = canvas.getContext("2d");
      const image = context.createImageData(n, n);
      for (let t = 0; t < n; t++) {
        for (let s = 0; s < n; s++) {
          const color = mix(paper, ink, Math.sqrt(pattern(l, h, t, s)));
          image.data.set([...color, 255], 4 * (t * n + s));
        }
      }
      context.putImageData(image, 0, 0);
      node.classList.toggle("chosen", l === page.state.layer && h === page.state.head);
    }
  };
  grids.add({ canvas: small[0].canvas, draw: paint });
  return () => {
    const { layer, head, step, token } = page.state;
    pattern = patternAt(step);
    paint();
    title.replaceChildren(
      `Block ${layer + 1}, head ${head + 1} `,
      el("small", {}, `rows: queries, columns: keys · ${stepName(step)}`),
    );
    const row = tokens.map((_, s) => pattern(layer, head, token, s));
    view.update(
      { color: (r, c) => scale.color(pattern(layer, head, r, c)), chosen: { row: token } },
      view.canvas.matches(":focus") ? undefined : [token, ranked(row)[0]],
    );
  };
});

const DETECTORS = {
  previous: "the token before",
  first: "the first token",
  itself: "the token itself",
  same: "the same token earlier",
  induction: "what came next last time",
};

figure("heads-detectors", ["step", "layer", "head"], (root) => {
  const { snapshots, repeated } = chapterData("heads");
  const { n_layers, n_heads } = page.data.model;
  const names = Object.keys(DETECTORS).filter((name) => snapshots[0].detectors[name]);
  const labels = Array.from(
    { length: n_layers * n_heads },
    (_, i) => `${Math.floor(i / n_heads) + 1}.${(i % n_heads) + 1}`,
  );
  const scale = amountScale(1, "mean weight");
  let show;
  const score = (step, r, c) => snapshots[step].detectors[names[r]][Math.floor(c / n_heads)][c % n_heads];
  const make = (stepOf) =>
    grid(root, {
      label: "How much each head looks at each kind of place",
      rows: names.length,
      columns: labels.length,
      largestCell: 30,
      cellHeight: 22,
      rowLabels: names.map((name) => DETECTORS[name]),
      columnLabels: labels,
      color: (r, c) => scale.color(score(stepOf(), r, c)),
      pick: (r, c) => choose({ layer: Math.floor(c / n_heads), head: c % n_heads }),
      describe: (r, c) =>
        show(
          [
            `Block ${Math.floor(c / n_heads) + 1}, head ${(c % n_heads) + 1} gives `,
            strong(percent(score(stepOf(), r, c))),
            ` of its weight to ${DETECTORS[names[r]]}`,
            ` (${stepName(stepOf())})`,
          ],
          r >= names.length - 2
            ? `Mean over ${repeated.sequences} sequences of ${repeated.tokens} tokens: random, read twice.`
            : "Mean over your text, from the third token on.",
        ),
    });
  const several = snapshots.length > 1;
  if (several) root.append(el("p", { class: "part-title" }, "Untrained"));
  const before = several ? make(() => 0) : null;
  const title = el("p", { class: "part-title" });
  root.append(title);
  const after = make(() => page.state.step);
  legend(root, scale);
  show = readout(root);
  const last = snapshots.length - 1;
  let best = [0, 0];
  names.forEach((_, r) =>
    labels.forEach((_, c) => {
      if (score(last, r, c) > score(last, ...best)) best = [r, c];
    }),
  );
  after.update({}, best);
  return () => {
    const column = page.state.layer * n_heads + page.state.head;
    title.replaceChildren(
      several ? "Now " : "The finished model ",
      el("small", {}, `${stepName(page.state.step)} · a column for each head, block.head`),
    );
    if (before) before.update({ chosen: { column } });
    after.update({ chosen: { column } });
  };
});

figure("heads-added", ["token", "layer"], (root) => {
  const data = chapterData("heads");
  const added = unpackOnce(data.added);
  const { n_heads, d_model } = page.data.model;
  const setToken = chooseToken(root);
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const update = bars(root, { label: "Length of what each head adds" });
  let rows = [];
  let show;
  root.append(el("p", { class: "part-title" }, "The parts, and their sum"));
  const view = strips(root, {
    label: "What each head adds, and the sum",
    width: d_model,
    lines: n_heads + 1,
    cellHeight: 18,
    describe: (r, c) =>
      show(
        [
          `Number ${c + 1}: `,
          rows
            .slice(0, n_heads)
            .map((row, h) => (h ? inside : number)(row[c]))
            .join(" + "),
          page.data.model.bias ? " + bias" : "",
          " = ",
          strong(number(rows[n_heads][c])),
        ],
        `The sum of the parts agrees with what the module gave to within ${number(data.added_difference, 2)}, the rounding of 32-bit numbers.`,
      ),
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  return () => {
    const { token, layer } = page.state;
    setToken();
    setLayer();
    rows = [
      ...Array.from({ length: n_heads }, (_, h) => added.row(layer, h, token)),
      attention("out", layer).row(token),
    ];
    update(
      rows.map((row, h) => ({
        label: h < n_heads ? `head ${h + 1}` : "sum",
        value: length(row),
        muted: h === n_heads,
      })),
    );
    const scale = view.update(
      rows.map((values, h) => ({ label: h < n_heads ? `head ${h + 1}` : "sum", values })),
      [n_heads, largestAt(rows[n_heads])],
    );
    scalePlace.replaceChildren(legend(null, scale, "added to the vector"));
  };
});
