// Chapter 7: several heads.

// The attention weights of all heads at a snapshot: pattern(layer, head, query, key).
function patternAt(step) {
  const { snapshots } = chapterData("heads");
  if (step === snapshots.length - 1) return (l, h, t, s) => tensor(`blocks.${l}.attention.pattern`).at(h, t, s);
  const packed = unpackOnce(snapshots[step].patterns);
  const n = page.data.text.tokens.length;
  if (!page.data.model.causal) return (l, h, t, s) => packed.at(l, h, t * n + s);
  return (l, h, t, s) => (s > t ? 0 : packed.at(l, h, (t * (t + 1)) / 2 + s));
}

// All heads as small pictures to choose from.  Returns paint(pattern).
function thumbnails(root) {
  const { n_layers, n_heads } = page.data.model;
  const n = page.data.text.tokens.length;
  const table = el("div", {
    class: "thumbnails",
    style: { "--heads": n_heads },
    role: "group",
    "aria-label": "All heads",
  });
  const heads = [];
  table.append(el("span"));
  for (let h = 0; h < n_heads; h++)
    table.append(el("span", { class: "thumbnail-label of-head" }, `Head ${h + 1}`));
  for (let l = 0; l < n_layers; l++) {
    table.append(el("span", { class: "thumbnail-label" }, `Block ${l + 1}`));
    for (let h = 0; h < n_heads; h++) {
      const canvas = el("canvas", { width: n, height: n });
      const press = () => choose({ layer: l, head: h });
      const label = `Block ${l + 1}, head ${h + 1}`;
      const node = el(
        "button",
        { type: "button", class: "thumbnail", "aria-label": label, onclick: press },
        canvas,
      );
      heads.push({ l, h, canvas, node });
      table.append(node);
    }
  }
  root.append(table);
  return (pattern) => {
    for (const { l, h, canvas, node } of heads) {
      const context = canvas.getContext("2d");
      const image = context.createImageData(n, n);
      for (let t = 0; t < n; t++) {
        for (let s = 0; s < n; s++) {
          const color = mix(palette.paper, palette.ink, Math.sqrt(pattern(l, h, t, s)));
          image.data.set([...color, 255], 4 * (t * n + s));
        }
      }
      context.putImageData(image, 0, 0);
      const chosen = l === page.state.layer && h === page.state.head;
      node.classList.toggle("chosen", chosen);
      node.setAttribute("aria-pressed", String(chosen));
    }
  };
}

figure("heads-grid", ["layer", "head", "step", "token"], (root) => {
  const { tokens } = page.data.text;
  const n = tokens.length;
  let pattern = null;
  const paint = thumbnails(root);
  painted.add({ canvas: root, draw: () => paint(pattern) });
  const title = partTitle(root);
  const showCells = grid(root, {
    label: "Attention weights of the chosen head",
    rows: n,
    columns: n,
    largestCell: 20,
    rowLabels: tokens,
    columnLabels: tokens,
    color: () => "transparent",
    hidden: page.data.model.causal ? (r, c) => c > r : null,
    pick: (r) => choose({ token: r }),
    describe: (r, c) => show(weightSaid(r, c, pattern(page.state.layer, page.state.head, r, c))),
  });
  const scale = amountScale(1, "weight");
  legend(root, scale);
  const show = readout(root);
  return () => {
    const { layer, head, step, token } = page.state;
    pattern = patternAt(step);
    paint(pattern);
    const said = el("small", {}, `a row for each query, a column for each key · ${stepName(step)}`);
    title.replaceChildren(`Block ${layer + 1}, head ${head + 1} `, said);
    const row = tokens.map((_, s) => pattern(layer, head, token, s));
    showCells({ color: (r, c) => scale.color(pattern(layer, head, r, c)), chosen: { row: token } }, [
      token,
      ranked(row)[0],
    ]);
  };
});

const DETECTORS = {
  previous: "the token before",
  first: "the first token",
  itself: "the token itself",
  same: "same token earlier",
  induction: "what followed that",
};
const ON_RANDOM_TOKENS = ["same", "induction"]; // those detectors that the text itself would tell little about

figure("heads-detectors", ["step", "layer", "head"], (root) => {
  const { snapshots, repeated } = chapterData("heads");
  const { n_layers, n_heads } = page.data.model;
  const names = Object.keys(DETECTORS).filter((name) => snapshots[0].detectors[name]);
  const heads = Array.from({ length: n_layers * n_heads }, (_, i) => ({
    layer: Math.floor(i / n_heads),
    head: i % n_heads,
  }));
  const scale = amountScale(1, "mean weight");
  const score = (step, r, c) => snapshots[step].detectors[names[r]][heads[c].layer][heads[c].head];
  const table = (stepOf) =>
    grid(root, {
      label: "How much each head looks at each kind of place",
      rows: names.length,
      columns: heads.length,
      largestCell: 30,
      cellHeight: 22,
      rowLabels: names.map((name) => DETECTORS[name]),
      columnLabels: heads.map(({ layer, head }) => `${layer + 1}.${head + 1}`),
      color: (r, c) => scale.color(score(stepOf(), r, c)),
      pick: (r, c) => choose(heads[c]),
      describe: (r, c) =>
        show(
          [
            `Block ${heads[c].layer + 1}, head ${heads[c].head + 1} gives `,
            strong(percent(score(stepOf(), r, c))),
            ` of its weight to: ${DETECTORS[names[r]]} (${stepName(stepOf())})`,
          ],
          ON_RANDOM_TOKENS.includes(names[r])
            ? `Mean over ${repeated.sequences} sequences of ${repeated.tokens} tokens: random, read twice.`
            : "Mean over your text, from the third token on.",
        ),
    });
  const last = snapshots.length - 1;
  if (last) partTitle(root, "Untrained ", el("small", {}, "a column for each head, as block.head"));
  const showBefore = last ? table(() => 0) : null;
  const title = partTitle(root);
  const showNow = table(() => page.state.step);
  legend(root, scale);
  const show = readout(root);
  const cells = names.flatMap((_, r) => heads.map((_, c) => [r, c]));
  const [strongest] = ranked(cells.map(([r, c]) => score(last, r, c)));
  showNow({}, cells[strongest]);
  return () => {
    const { layer, head, step } = page.state;
    const chosen = { column: layer * n_heads + head };
    title.replaceChildren(last ? "Now " : "The finished model ", el("small", {}, stepName(step)));
    if (showBefore) showBefore({ chosen });
    showNow({ chosen });
  };
});

figure("heads-added", ["token", "layer"], (root) => {
  const data = chapterData("heads");
  const added = unpackOnce(data.added);
  const { n_heads, d_model, bias } = page.data.model;
  chooseToken(root);
  chooseLayer(controls(root));
  partTitle(root, "Length of what each head adds");
  const showBars = bars(root, { label: "Length of what each head adds" });
  let parts = [];
  let total = [];
  partTitle(root, "The parts, and their sum");
  const showStrips = strips(root, {
    label: "What each head adds, and the sum",
    width: d_model,
    lines: n_heads + 1,
    cellHeight: 18,
    describe: (r, c) => {
      const terms = parts.map((part, h) => (h ? inside : number)(part[c])).join(" + ");
      const agreement = `to within ${number(data.added_difference, 2)}, the rounding of 32-bit numbers`;
      show(
        [`In dimension ${c}: ${terms}${bias ? " + bias" : ""} = `, strong(number(total[c]))],
        `The sum of the parts agrees with what the module gave ${agreement}.`,
      );
    },
  });
  const showScale = legend(root);
  const show = readout(root);
  return () => {
    const { token, layer } = page.state;
    parts = Array.from({ length: n_heads }, (_, h) => added.row(layer, h, token));
    total = attention("out", layer).row(token);
    const lines = [
      ...parts.map((values, h) => ({ label: `head ${h + 1}`, values })),
      { label: "sum", values: total },
    ];
    showBars(lines.map(({ label, values }) => ({ label, value: length(values), muted: label === "sum" })));
    showScale(showStrips(lines, [n_heads, largestAt(total)]), "added to the vector");
  };
});
