// Chapter 4: the same token in two contexts.

function comparison() {
  const { compare } = chapterData("context");
  if (compare.missing) throw new Error(compare.missing);
  return compare;
}

function phraseRows(root, compare) {
  compare.tokens.forEach((tokens, which) =>
    root.append(
      el(
        "p",
        { class: "phrase" },
        el("span", { class: "phrase-name" }, "AB"[which]),
        tokens.map((text, i) =>
          el("span", { class: i === compare.places[which] ? "piece fresh" : "piece" }, text),
        ),
      ),
    ),
  );
}

// Strips of both vectors and their difference at a stage; returns update(stage).
function pairStrips(root, compare) {
  const vectors = unpackOnce(compare.vectors);
  const width = page.data.model.d_model;
  let show;
  let stage = 0;
  let rows = [];
  const view = strips(root, {
    label: "The two vectors and their difference",
    width,
    lines: 3,
    cellHeight: 24,
    describe: (r, c) =>
      show(
        [
          `Number ${c + 1}: `,
          `A − B = ${number(rows[0][c])} − ${inside(rows[1][c])} = `,
          strong(rows[2][c] === 0 ? "0, exactly" : number(rows[2][c])),
        ],
        `Over all ${width}: the largest difference is ${largestSize(rows[2]) === 0 ? "0, exactly" : number(largestSize(rows[2]))}.`,
      ),
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  return (at) => {
    stage = at;
    const a = vectors.row(0, stage);
    const b = vectors.row(1, stage);
    rows = [a, b, a.map((x, i) => x - b[i])];
    const scale = view.update(
      rows.map((values, i) => ({ label: ["A", "B", "A − B"][i], values })),
      [2, largestAt(rows[2])],
    );
    scalePlace.replaceChildren(legend(null, scale, "value"));
  };
}

figure("context-lookup", [], (root) => {
  const compare = comparison();
  phraseRows(root, compare);
  root.append(el("p", { class: "part-title" }, "The row of ", tokenName(compare.token), " in the table"));
  const update = pairStrips(root, compare);
  return () => update(0);
});

figure("context-layers", [], (root) => {
  const compare = comparison();
  const vectors = unpackOnce(compare.vectors);
  const cosine = (s) => {
    const a = vectors.row(0, s);
    const b = vectors.row(1, s);
    return dot(a, b) / (length(a) * length(b));
  };
  const names = compare.stages.map((name) =>
    name === "table" ? "table" : name === "position" ? "+ position" : name,
  );
  const points = names.map((_, s) => [s, cosine(s)]);
  phraseRows(root, compare);
  root.append(el("p", { class: "part-title" }, "Cosine of the two vectors of ", tokenName(compare.token)));
  let at = names.length - 1;
  let update;
  let draw;
  draw = chart(root, {
    label: "Cosine of the two vectors after each stage",
    height: 210,
    yHigh: 1,
    yLow: Math.min(0.98, ...points.map((p) => p[1])) - 0.01,
    xTicks: names.map((_, s) => s),
    xFormat: (s) => names[s],
    yLabel: "cosine",
    series: [{ name: "cosine", tone: "ink", points, marks: true }],
    pick: (_, i) => go(i),
    describe: (_, i) => go(i),
  });
  const bar = controls(root);
  const set = choice(bar, { label: "Look at", options: names, value: at, change: (i) => go(i) });
  update = pairStrips(root, compare);
  const go = (i) => {
    at = i;
    set(i);
    draw({ verticals: [{ x: i, name: number(points[i][1]) }] });
    update(i);
  };
  go(at);
  return null;
});

figure("context-change", [], (root) => {
  const { change } = chapterData("context");
  const moved = unpackOnce(change.differences);
  const { tokens } = page.data.text;
  const [stages, n] = moved.shape;
  const names = ["table", "+ position", ...Array.from({ length: stages - 2 }, (_, i) => `block ${i + 1}`)];
  const scale = amountScale(largestSize(moved.numbers), "largest change of a number");
  let show;
  root.append(
    el(
      "p",
      { class: "part-title" },
      `At position ${change.place}, `,
      tokenName(change.old),
      " was replaced by ",
      tokenName(change.new),
    ),
  );
  const view = grid(root, {
    label: "How far each token's vector moved",
    rows: stages,
    columns: n,
    cellHeight: 24,
    largestCell: 30,
    rowLabels: names,
    columnLabels: tokens,
    chosen: { column: change.place },
    hidden: (r, c) => moved.at(r, c) === 0,
    color: (r, c) => scale.color(moved.at(r, c)),
    describe: (r, c) =>
      show(
        [
          tokenName(tokens[c]),
          ` at position ${c}, ${names[r]}: moved by `,
          strong(moved.at(r, c) === 0 ? "exactly 0" : number(moved.at(r, c))),
        ],
        c < change.place
          ? "It stands before the changed token, which it can't see."
          : c === change.place
            ? "This is the changed token itself."
            : "It stands after the changed token.",
      ),
  });
  legend(root, scale);
  show = readout(root);
  view.update({}, [stages - 1, n - 1]);
  return null;
});
