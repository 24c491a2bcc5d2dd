// Chapter 8: positions.

figure("positions-swap", [], (root) => {
  const { swap } = chapterData("positions");
  const { tokens } = page.data.text;
  if (swap.missing) {
    note(root, `The text is too short to try it: ${swap.missing}.`);
    return null;
  }
  for (const [name, list] of [
    ["before", tokens],
    ["after", swap.tokens],
  ]) {
    root.append(
      el(
        "p",
        { class: "phrase" },
        el("span", { class: "phrase-name wide" }, name),
        list.map((text, i) => el("span", { class: swap.places.includes(i) ? "piece fresh" : "piece" }, text)),
      ),
    );
  }
  root.append(
    el(
      "p",
      { class: "part-title" },
      "How far the last token's vector moves in block 1 ",
      el("small", {}, "share of its length"),
    ),
  );
  const update = bars(root, {
    label: "Movement of the last vector",
    format: (x) => (x < 0.001 ? number(x, 2) : percent(x)),
  });
  update([
    { label: "without positions", value: swap.without },
    { label: "with positions", value: swap.with },
  ]);
  return null;
});

figure("positions-heat", ["token"], (root) => {
  const table = unpackOnce(chapterData("positions").table);
  const [n, d] = table.shape;
  const scale = signedScale(largestSize(table.numbers), "value");
  const sinusoidal = page.data.model.positions === "sinusoidal";
  let show;
  const view = grid(root, {
    label: "Fingerprint of each position",
    rows: n,
    columns: d,
    largestCell: 9,
    smallestCell: 4,
    cellHeight: n > 64 ? 4 : undefined,
    rowLabels: Array.from({ length: n }, (_, p) => String(p)),
    color: (p, i) => scale.color(table.at(p, i)),
    describe: (p, i) => {
      const pair = i - (i % 2);
      const speed = 10000 ** (-pair / d);
      show(
        sinusoidal
          ? [
              `PE(${p}, ${i}) = ${i % 2 ? "cos" : "sin"}(${p} / 10000^(${pair}/${d})) = ${i % 2 ? "cos" : "sin"}(${number(p * speed)}) = `,
              strong(number(table.at(p, i))),
            ]
          : [`position ${p}, number ${i + 1}: `, strong(number(table.at(p, i))), ", learned"],
        sinusoidal ? `This clock hand turns once in ${number((2 * Math.PI) / speed)} positions.` : null,
      );
    },
  });
  legend(root, scale, "rows: positions, columns: dimensions;");
  show = readout(root);
  view.update({}, [Math.min(n - 1, 3), 0]);
  return () => view.update({ chosen: { row: page.state.token < n ? page.state.token : undefined } });
});

figure("positions-norms", ["token"], (root) => {
  const { tokens } = page.data.text;
  const root_d = Math.sqrt(page.data.model.d_model);
  const rows = tokens.map((_, t) => length(tensor("embed").row(t)));
  const places = tokens.map((_, t) => length(tensor("positions").row(t)));
  const line = (name, tone, values) => ({ name, tone, marks: true, points: values.map((y, t) => [t, y]) });
  const series = [
    line("row of the table", "muted", rows),
    line(
      `row × √${page.data.model.d_model}`,
      "ink",
      rows.map((x) => x * root_d),
    ),
    line("fingerprint of the position", "accent", places),
  ];
  key(root, series);
  let show;
  const update = chart(root, {
    label: "Lengths of embeddings and of positions",
    height: 240,
    yLow: 0,
    xLabel: "token",
    yLabel: "length",
    xTicks: tokens.map((_, t) => t),
    xFormat: (t) => tokens[t],
    tight: true,
    series,
    pick: (s, t) => choose({ token: t }),
    describe: (s, t) =>
      show(
        [
          tokenName(tokens[t]),
          ` at ${t}: ‖row‖ = ${number(rows[t])},  × √${page.data.model.d_model} = `,
          strong(number(rows[t] * root_d)),
          ",  ‖fingerprint‖ = ",
          strong(number(places[t])),
        ],
        page.data.model.positions === "sinusoidal"
          ? `Every fingerprint has the length √(d/2) = ${number(Math.sqrt(page.data.model.d_model / 2))}, as sin² + cos² = 1 in each pair.`
          : null,
      ),
  });
  show = readout(root);
  return () => update({ at: [1, page.state.token] });
});

figure("positions-overlap", [], (root) => {
  const { overlap } = chapterData("positions");
  const line = (name) => overlap.map((o, k) => [k, o[name]]);
  const band = Math.max(...overlap.map((o) => o.max - o.min));
  let show;
  const update = chart(root, {
    label: "Product of two fingerprints by their distance",
    height: 240,
    xLabel: "distance k, in positions",
    yLabel: "PE(p) · PE(p + k)",
    series: [
      { name: "mean", tone: "ink", points: line("mean") },
      { name: "least", tone: "muted", dashed: true, points: line("min") },
      { name: "greatest", tone: "muted", dashed: true, points: line("max") },
    ],
    describe: (s, k) =>
      show([
        `${k} apart: PE(p) · PE(p + ${k}) = `,
        strong(number(overlap[k].mean, 4)),
        `, between ${number(overlap[k].min, 4)} and ${number(overlap[k].max, 4)} over all p`,
      ]),
  });
  show = readout(root);
  show([
    "Over all starting points p, the product at one distance varies by at most ",
    strong(number(band, 2)),
    ".",
  ]);
  update({});
  return null;
});

figure("positions-beyond", [], (root) => {
  const { beyond } = chapterData("positions");
  if (beyond.missing) {
    note(root, `This can't be shown here: ${beyond.missing}.`);
    return null;
  }
  const losses = unpackOnce(beyond.losses).numbers;
  const width = Math.max(1, Math.round(beyond.context / 8));
  const smooth = Array.from(losses, (_, i) => {
    const part = losses.subarray(Math.max(0, i - width + 1), i + 1);
    return part.reduce((a, b) => a + b, 0) / part.length;
  });
  const series = [
    { name: "each position", tone: "line", points: Array.from(losses, (y, i) => [i, y]) },
    { name: `mean of the last ${width}`, tone: "ink", points: smooth.map((y, i) => [i, y]) },
  ];
  key(root, series);
  let show;
  const update = chart(root, {
    label: "Loss by position",
    height: 260,
    yLow: 0,
    xLabel: "position",
    yLabel: "loss, nats per token",
    series,
    verticals: [{ x: beyond.context, name: "trained up to here" }],
    describe: (s, i) =>
      show([
        `At position ${i}: `,
        strong(number(losses[i])),
        ` nats, mean over ${beyond.windows} passages of held-out text; mean of the last ${width} positions: ${number(smooth[i])}`,
      ]),
  });
  show = readout(root);
  const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
  show([
    "Mean loss up to the line: ",
    strong(number(mean(losses.subarray(0, beyond.context)))),
    " nats; past it: ",
    strong(number(mean(losses.subarray(beyond.context)))),
    " nats.",
  ]);
  update({});
  return null;
});
