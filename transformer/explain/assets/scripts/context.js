// Chapter 4: the same token in two contexts.

function comparison() {
  const { compare } = chapterData("context");
  if (compare.missing) throw new Error(compare.missing);
  return compare;
}

function showPhrases(root, { tokens, places }) {
  tokens.forEach((list, which) => phrase(root, "AB"[which], list, (i) => i === places[which]));
}

const exactly = (x) => strong(x === 0 ? "0, exactly" : number(x));

// Strips of both vectors and their difference; returns update(stage).
function pairStrips(root, compare) {
  const vectors = unpackOnce(compare.vectors);
  const width = page.data.model.d_model;
  let rows = [];
  const showStrips = strips(root, {
    label: "The two vectors and their difference",
    width,
    lines: 3,
    cellHeight: 24,
    describe: (r, c) => {
      const [a, b, difference] = rows;
      show(
        [`A[${c}] − B[${c}] = ${number(a[c])} − ${inside(b[c])} = `, exactly(difference[c])],
        [`The largest difference of the ${width} numbers is `, exactly(largestSize(difference)), "."],
      );
    },
  });
  const showScale = legend(root);
  const show = readout(root);
  return (stage) => {
    const a = vectors.row(0, stage);
    const b = vectors.row(1, stage);
    rows = [a, b, a.map((x, i) => x - b[i])];
    const content = rows.map((values, i) => ({ label: ["A", "B", "A − B"][i], values }));
    showScale(showStrips(content, [2, largestAt(rows[2])]), "value");
  };
}

figure("context-lookup", [], (root) => {
  const compare = comparison();
  showPhrases(root, compare);
  partTitle(root, "The row of ", tokenName(compare.token), " in the table");
  pairStrips(root, compare)(0);
});

figure("context-layers", [], (root) => {
  const compare = comparison();
  const vectors = unpackOnce(compare.vectors);
  const names = compare.stages.map((name) => (name === "position" ? "+ position" : name));
  const points = names.map((_, s) => {
    const a = vectors.row(0, s);
    const b = vectors.row(1, s);
    return [s, dot(a, b) / (length(a) * length(b))];
  });
  showPhrases(root, compare);
  partTitle(root, "Cosine of the two vectors of ", tokenName(compare.token));
  let stage = -1;
  const showChart = chart(root, {
    label: "Cosine of the two vectors after each stage",
    height: 210,
    yHigh: 1,
    yLow: Math.min(0.98, ...points.map(([, y]) => y)) - 0.01,
    xTicks: points.map(([x]) => x),
    xFormat: (s) => names[s],
    yLabel: "cosine",
    series: [{ tone: "ink", points, marks: true }],
    describe: (_, i) => lookAt(i),
  });
  const markStage = choice(controls(root), { label: "Look at", options: names, change: lookAt });
  const showPair = pairStrips(root, compare);
  function lookAt(i) {
    if (i === stage) return;
    stage = i;
    markStage(i);
    showChart({ verticals: [{ x: i, name: number(points[i][1]) }] });
    showPair(i);
  }
  lookAt(names.length - 1);
});

figure("context-change", [], (root) => {
  const { change } = chapterData("context");
  const moved = unpackOnce(change.differences);
  const { tokens } = page.data.text;
  const [stages, n] = moved.shape;
  const names = ["table", "+ position", ...Array.from({ length: stages - 2 }, (_, i) => `block ${i + 1}`)];
  const scale = amountScale(largestSize(moved.numbers), "largest change of a number");
  partTitle(
    root,
    `At position ${change.place}, `,
    tokenName(change.old),
    " was replaced by ",
    tokenName(change.new),
  );
  const reason = (r, c) => {
    if (c < change.place) return "It stands before the changed token, which it can't see.";
    if (c === change.place) return "This is the changed token itself.";
    return `It stands after the changed token${r < 2 ? "; no block has looked around yet" : ""}.`;
  };
  const showCells = grid(root, {
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
        [tokenName(tokens[c]), ` at position ${c}, ${names[r]}: moved by `, exactly(moved.at(r, c))],
        reason(r, c),
      ),
  });
  legend(root, scale);
  const show = readout(root);
  showCells({}, [stages - 1, n - 1]);
});
