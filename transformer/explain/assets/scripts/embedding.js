// Chapter 3: embeddings.

figure("embedding-strip", ["token", "step"], (root) => {
  const { ids: known, snapshots } = chapterData("embedding");
  const { ids, tokens } = page.data.text;
  const width = page.data.model.d_model;
  chooseToken(root);
  const title = partTitle(root);
  let row = [];
  const showStrips = strips(root, {
    label: "The row of the chosen token",
    width,
    lines: 1,
    cellHeight: 44,
    describe: (r, c) => {
      const { token } = page.state;
      show(
        [
          `E[${ids[token]}, ${c}] = `,
          strong(number(row[c])),
          `: dimension ${c} of the row of `,
          tokenName(tokens[token]),
        ],
        `All ${width} together have the length ${number(length(row))}.`,
      );
    },
  });
  const showScale = legend(root);
  const show = readout(root);
  return () => {
    const { token, step } = page.state;
    row = unpackOnce(snapshots[step].rows).row(known.indexOf(ids[token]));
    title.replaceChildren(
      `Row ${ids[token]} of the table: `,
      tokenName(tokens[token]),
      " ",
      el("small", {}, stepName(step)),
    );
    showScale(showStrips([{ label: "", values: row }], [0, largestAt(row)]), "value");
  };
});

figure("embedding-neighbours", ["token", "step"], (root) => {
  const { ids: known, snapshots } = chapterData("embedding");
  const { ids, tokens } = page.data.text;
  chooseToken(root);
  const title = partTitle(root);
  const showBars = bars(root, { label: "Nearest tokens by cosine", signed: true });
  return () => {
    const { token, step } = page.state;
    const said = el("small", {}, `cosine, from −1 to 1 · ${stepName(step)}`);
    title.replaceChildren("Nearest to ", tokenName(tokens[token]), " ", said);
    const found = snapshots[step].neighbours[known.indexOf(ids[token])];
    if (!found.length) throw new Error("the vocabulary has no other token to compare with");
    showBars(
      found.map(([id, cosine]) => ({ label: page.data.vocabulary[id], value: cosine })),
      1,
    );
  };
});

const MOST_NAMES = 160; // on the map: more can't be read

figure("embedding-map", ["token", "step"], (root) => {
  const { map_ids: shown, map_share, snapshots } = chapterData("embedding");
  const { vocabulary, text } = page.data;
  const inText = new Set(text.ids);
  const names = shown.map((id) => (shown.length <= MOST_NAMES || inText.has(id) ? vocabulary[id] : ""));
  const place = (map, i) => [map.at(i, 0), map.at(i, 1)];
  const final = unpackOnce(snapshots.at(-1).map);
  const bounds = (values) => {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const room = 0.06 * (high - low || 1);
    return [low - room, high + room];
  };
  const [xLow, xHigh] = bounds(shown.map((_, i) => final.at(i, 0)));
  const [yLow, yHigh] = bounds(shown.map((_, i) => final.at(i, 1)));
  let points = [];
  const showChart = chart(root, {
    label: "Map of the embedding table",
    bare: true,
    height: 420,
    ...{ xLow, xHigh, yLow, yHigh },
    xLabel: `the two main directions: ${percent(map_share)} of the variance`,
    series: [],
    describe: (s, i) => {
      const where = `(${number(points[i][0])}, ${number(points[i][1])})`;
      show([
        "Token ",
        tokenName(vocabulary[shown[i]]),
        `, number ${shown[i]}, stands at ${where} in ${stepName(page.state.step)}.`,
      ]);
    },
    pick: (s, i) => {
      const at = text.ids.lastIndexOf(shown[i]);
      if (at >= 0) choose({ token: at });
    },
  });
  const show = readout(root);
  return () => {
    const chosen = text.ids[page.state.token];
    const map = unpackOnce(snapshots[page.state.step].map);
    points = shown.map((_, i) => place(map, i));
    const className = (i) => (shown[i] === chosen ? "strong" : inText.has(shown[i]) ? "dark" : "");
    showChart({
      series: [{ tone: "muted", points, names, className }],
      at: shown.includes(chosen) ? [0, shown.indexOf(chosen)] : null,
    });
  };
});
