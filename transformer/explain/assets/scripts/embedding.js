// Chapter 3: embeddings.

figure("embedding-strip", ["token", "step"], (root) => {
  const data = chapterData("embedding");
  const { ids, tokens } = page.data.text;
  const width = page.data.model.d_model;
  const set = chooseToken(root);
  const title = el("p", { class: "part-title" });
  root.append(title);
  let row = [];
  let show;
  let chosen = 0;
  const view = strips(root, {
    label: "The row of the chosen token",
    width,
    lines: 1,
    cellHeight: 44,
    describe: (r, c) =>
      show(
        [
          `E[${ids[page.state.token]}, ${c}] = `,
          strong(number(row[c])),
          `, number ${c + 1} of the `,
          width,
          " in the row of ",
          tokenName(tokens[page.state.token]),
        ],
        `All ${width} together have the length ${number(length(row))}.`,
      ),
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  return () => {
    chosen = page.state.token;
    set();
    row = unpackOnce(data.snapshots[page.state.step].rows).row(data.ids.indexOf(ids[chosen]));
    title.replaceChildren(
      "Row ",
      String(ids[chosen]),
      " of the table: ",
      tokenName(tokens[chosen]),
      " ",
      el("small", {}, stepName(page.state.step)),
    );
    const scale = view.update(
      [{ label: "", values: row }],
      view.canvas.matches(":focus") ? undefined : [0, largestAt(row)],
    );
    scalePlace.replaceChildren(legend(null, scale, "value"));
  };
});

// Where a list is farthest from zero.
function largestAt(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i]) > Math.abs(values[best])) best = i;
  return best;
}

figure("embedding-neighbours", ["token", "step"], (root) => {
  const data = chapterData("embedding");
  const { ids, tokens } = page.data.text;
  const set = chooseToken(root);
  const title = el("p", { class: "part-title" });
  root.append(title);
  const update = bars(root, { label: "Nearest tokens by cosine", signed: true });
  return () => {
    set();
    title.replaceChildren(
      "Nearest to ",
      tokenName(tokens[page.state.token]),
      " ",
      el("small", {}, `cosine, from −1 to 1 · ${stepName(page.state.step)}`),
    );
    const found = data.snapshots[page.state.step].neighbours[data.ids.indexOf(ids[page.state.token])];
    if (!found.length) throw new Error("the vocabulary has no other token to compare with");
    update(
      found.map(([id, cosine]) => ({ label: page.data.vocabulary[id], value: cosine })),
      1,
    );
  };
});

figure("embedding-map", ["token", "step"], (root) => {
  const data = chapterData("embedding");
  const { ids } = page.data.text;
  const shown = data.map_ids;
  const inText = new Set(ids);
  const few = shown.length <= 160; // more names than that can't be read
  const points = () => {
    const map = unpackOnce(data.snapshots[page.state.step].map);
    return shown.map((_, i) => [map.at(i, 0), map.at(i, 1)]);
  };
  const final = unpackOnce(data.snapshots.at(-1).map);
  const axis = (a) => shown.map((_, i) => final.at(i, a));
  const bounds = (values) => {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const room = 0.06 * (high - low || 1);
    return [low - room, high + room];
  };
  const [xLow, xHigh] = bounds(axis(0));
  const [yLow, yHigh] = bounds(axis(1));
  let show;
  const update = chart(root, {
    label: "Map of the embedding table",
    square: true,
    height: 420,
    xLow,
    xHigh,
    yLow,
    yHigh,
    xLabel: `the two main directions: ${percent(data.map_share)} of the variance`,
    series: [],
    describe: (s, i) => {
      const p = points()[i];
      show([
        "Token ",
        tokenName(page.data.vocabulary[shown[i]]),
        ` (number ${shown[i]}) at ${number(p[0])}, ${number(p[1])} ${stepName(page.state.step)}`,
      ]);
    },
    pick: (s, i) => {
      const at = ids.lastIndexOf(shown[i]);
      if (at >= 0) choose({ token: at });
    },
  });
  show = readout(root);
  return () =>
    update({
      at: shown.includes(ids[page.state.token]) ? [0, shown.indexOf(ids[page.state.token])] : undefined,
      series: [
        {
          name: "tokens",
          tone: "muted",
          names: true,
          points: points(),
          radius: 1.3,
          labels: shown.map((id) => (few || inText.has(id) ? page.data.vocabulary[id] : "")),
          className: (i) => (shown[i] === ids[page.state.token] ? "strong" : inText.has(shown[i]) ? "dark" : ""),
        },
      ],
    });
});
