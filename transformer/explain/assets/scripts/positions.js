// Chapter 8: positions.

figure("positions-swap", [], (root) => {
  const { swap } = chapterData("positions");
  if (swap.missing) {
    note(root, `The text is too short to try it: ${swap.missing}.`);
    return;
  }
  phrase(root, "before", page.data.text.tokens, (i) => swap.places.includes(i));
  phrase(root, "after", swap.tokens, (i) => swap.places.includes(i));
  partTitle(root, "How far the last token's vector moves in block 1 ", el("small", {}, "share of its length"));
  const format = (x) => (x < 0.001 ? number(x, 2) : percent(x));
  const showBars = bars(root, { label: "Movement of the last vector", format });
  const items = [
    { label: "without positions", value: swap.without },
    { label: "with positions", value: swap.with },
  ];
  showBars(items, Math.max(1, swap.without, swap.with));
});

figure("positions-heat", ["token"], (root) => {
  const table = unpackOnce(chapterData("positions").table);
  const [n, d] = table.shape;
  const scale = signedScale(largestSize(table.numbers), "value");
  const sinusoidal = page.data.model.positions === "sinusoidal";
  partTitle(root, el("small", {}, "A row for each position, a column for each dimension"));
  const showCells = grid(root, {
    label: "Fingerprint of each position",
    rows: n,
    columns: d,
    largestCell: 9,
    smallestCell: 4,
    cellHeight: n > 64 ? 4 : undefined,
    rowLabels: Array.from({ length: n }, (_, p) => String(p)),
    color: (p, i) => scale.color(table.at(p, i)),
    describe: (p, i) => {
      const value = strong(number(table.at(p, i)));
      if (!sinusoidal) {
        show([`PE(${p}, ${i}) = `, value, ", learned"]);
        return;
      }
      const pair = i - (i % 2);
      const speed = 10000 ** (-pair / d);
      const wave = i % 2 ? "cos" : "sin";
      show(
        [`PE(${p}, ${i}) = ${wave}(${p} / 10000^(${pair}/${d})) = ${wave}(${number(p * speed)}) = `, value],
        `This clock hand turns once in ${number((2 * Math.PI) / speed)} positions.`,
      );
    },
  });
  legend(root, scale);
  const show = readout(root);
  showCells({}, [Math.min(n - 1, 3), 0]);
  return () => showCells({ chosen: { row: page.state.token } });
});

figure("positions-norms", ["token"], (root) => {
  const { tokens } = page.data.text;
  const { d_model, positions } = page.data.model;
  const rows = tokens.map((_, t) => length(tensor("embed").row(t)));
  const scaled = rows.map((x) => x * Math.sqrt(d_model));
  const places = tokens.map((_, t) => length(tensor("positions").row(t)));
  const curve = (name, tone, values) => ({ name, tone, marks: true, points: values.map((y, t) => [t, y]) });
  const series = [
    curve("row of the table", "muted", rows),
    curve(`row × √${d_model}`, "ink", scaled),
    curve("fingerprint of the position", "accent", places),
  ];
  chartKey(root, series);
  const showChart = chart(root, {
    label: "Lengths of embeddings and of positions",
    height: 240,
    yLow: 0,
    xLabel: "token",
    yLabel: "length",
    xTicks: tokens.map((_, t) => t),
    xFormat: (t) => tokens[t],
    series,
    pick: (s, t) => choose({ token: t }),
    describe: (s, t) =>
      show(
        [
          ...[tokenName(tokens[t]), ` at ${t}: ‖row‖ = ${number(rows[t])}, × √${d_model} = `],
          ...[strong(number(scaled[t])), ", ‖fingerprint‖ = ", strong(number(places[t]))],
        ],
        positions === "sinusoidal" &&
          `Every fingerprint has the length √(d/2) = ${number(Math.sqrt(d_model / 2))}: sin² + cos² = 1 in each pair.`,
      ),
  });
  const show = readout(root);
  return () => showChart({ at: [1, page.state.token] });
});

figure("positions-overlap", [], (root) => {
  const { overlap } = chapterData("positions");
  const curve = (name, tone, dashed) => ({ tone, dashed, points: overlap.map((one, k) => [k, one[name]]) });
  const showChart = chart(root, {
    label: "Product of two fingerprints by their distance",
    height: 240,
    xLabel: "distance k, in positions",
    yLabel: "PE(p) · PE(p + k)",
    series: [curve("mean", "ink"), curve("min", "muted", true), curve("max", "muted", true)],
    describe: (s, k) => {
      const { mean: average, min, max } = overlap[k];
      const range = `between ${number(min, 4)} and ${number(max, 4)} over all p`;
      show([`${k} apart: PE(p) · PE(p + ${k}) = `, strong(number(average, 4)), `, ${range}`]);
    },
  });
  const show = readout(root);
  const band = Math.max(...overlap.map(({ min, max }) => max - min));
  show([
    "Over all starting points p, the product at one distance varies by at most ",
    strong(number(band, 2)),
    ".",
  ]);
  showChart();
});

figure("positions-beyond", [], (root) => {
  const { beyond } = chapterData("positions");
  if (beyond.missing) {
    note(root, `This can't be shown here: ${beyond.missing}.`);
    return;
  }
  const { context, windows } = beyond;
  const losses = unpackOnce(beyond.losses).numbers;
  const width = Math.max(1, Math.round(context / 8));
  const smooth = losses.map((_, i) => mean(losses.subarray(Math.max(0, i - width + 1), i + 1)));
  const curve = (name, tone, values) => ({ name, tone, points: Array.from(values, (y, i) => [i, y]) });
  const series = [curve("each position", "line", losses), curve(`mean of the last ${width}`, "ink", smooth)];
  chartKey(root, series);
  const showChart = chart(root, {
    label: "Loss by position",
    height: 260,
    yLow: 0,
    xLabel: "position",
    yLabel: "loss, nats per token",
    series,
    verticals: [{ x: context, name: "trained up to here" }],
    describe: (s, i) =>
      show(
        [`At position ${i}: `, strong(number(losses[i])), ` nats, mean over ${windows} passages of held-out text`],
        `Mean of the last ${width} positions: ${number(smooth[i])} nats`,
      ),
  });
  const show = readout(root);
  const [within, past] = [losses.subarray(0, context), losses.subarray(context)].map((part) => number(mean(part)));
  show(["Mean loss up to the line: ", strong(within), " nats; past it: ", strong(past), " nats."]);
  showChart();
});
