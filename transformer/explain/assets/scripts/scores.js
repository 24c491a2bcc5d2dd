// Chapter 6: scores, mask, softmax.

const attention = (name, layer = page.state.layer) => tensor(`blocks.${layer}.attention.${name}`);

// How many keys a query may look at.
const allowed = (query) => (page.data.model.causal ? query + 1 : page.data.text.tokens.length);

// The "scores" or the weights ("pattern") of the chosen query, one for each key that it may look at.
function rowOfQuery(name) {
  const { head, token } = page.state;
  return Array.from(attention(name).row(head, token).subarray(0, allowed(token)));
}

function chooseQuery(root) {
  chooseToken(root, "Choose the query");
  const bar = controls(root);
  chooseLayer(bar);
  chooseHead(bar);
}

// e to some power, as it is printed.
const power = (x) => `e^${inside(x)}`;

figure("scores-why", ["token", "layer", "head"], (root) => {
  const { d_k } = page.data.model;
  const { tokens } = page.data.text;
  chooseQuery(root);
  const keyTitle = partTitle(root);
  const showWeights = columnBars(root, { label: "Weight of each key", rowHeight: 56, describe: showKey });
  const stripTitle = partTitle(root);
  const showStrips = strips(root, {
    label: "Query, key and their products",
    width: d_k,
    lines: 3,
    cellHeight: 24,
    describe: explain,
  });
  const legends = el("div", { class: "legends" });
  root.append(legends);
  const showVectorScale = legend(legends);
  const showProductScale = legend(legends);
  const show = readout(root);
  let key = -1;
  let q = [];
  let k = [];
  let products = [];

  function explain(r, c) {
    const { head, token } = page.state;
    const product = dot(q, k);
    const weight = attention("pattern").at(head, token, key);
    show(
      [`In dimension ${c}: `, Q(number(q[c])), " × ", K(inside(k[c])), " = ", strong(number(products[c]))],
      [Q("q"), " · ", K("k"), " = ", sumOfProducts(q, k, product, { left: Q, right: K }), ` = ${number(product)}`],
      [
        `score = ${number(product)} / √${d_k} = `,
        strong(number(attention("scores").at(head, token, key))),
        `, which gets the weight ${percent(weight)}`,
      ],
    );
  }

  function showKey(i) {
    if (i === key) return;
    const { head, token } = page.state;
    key = i;
    q = attention("q").row(head, token);
    k = attention("k").row(head, key);
    products = q.map((x, d) => x * k[d]);
    const names = [tokenName(tokens[token]), ", ", K("key"), " of ", tokenName(tokens[key])];
    stripTitle.replaceChildren(Q("Query"), " of ", ...names, ", and their products");
    const shared = signedScale(largestSize(q, k));
    const own = signedScale(largestSize(products));
    showStrips(
      [
        { label: "q", values: q, tone: "query", scale: shared },
        { label: "k", values: k, tone: "key", scale: shared },
        { label: "q × k", values: products, scale: own },
      ],
      [2, largestAt(products)],
    );
    showVectorScale(shared, "q, k");
    showProductScale(own, "q × k");
    const weights = rowOfQuery("pattern");
    const labels = tokens.slice(0, weights.length);
    showWeights({ labels, chosen: key, at: key, rows: [{ label: "weight", values: weights, format: percent }] });
  }

  return () => {
    keyTitle.replaceChildren(
      "Where ",
      tokenName(tokens[page.state.token]),
      " looks ",
      el("small", {}, "point at a key"),
    );
    key = -1;
    showKey(ranked(rowOfQuery("pattern"))[0]);
  };
});

figure("scores-row", ["token", "layer", "head"], (root) => {
  const { tokens } = page.data.text;
  chooseQuery(root);
  let scores = [];
  let powers = [];
  let weights = [];
  const showBars = columnBars(root, {
    label: "Score, exponential and weight of each key",
    rowHeight: 58,
    describe: (i) => {
      const total = number(sum(powers));
      show(
        ["Key ", tokenName(tokens[i]), ": ", power(scores[i]), " = ", strong(number(powers[i]))],
        [
          `weight = ${number(powers[i])} / ${total} = `,
          strong(percent(weights[i])),
          `, where ${total} is the sum of all ${scores.length}`,
        ],
      );
    },
  });
  const show = readout(root);
  return () => {
    scores = rowOfQuery("scores");
    weights = rowOfQuery("pattern");
    powers = scores.map(Math.exp);
    showBars({
      labels: tokens.slice(0, scores.length),
      at: ranked(weights)[0],
      rows: [
        { label: "score", values: scores, signed: true },
        { label: "e^score", values: powers },
        { label: "weight", values: weights, format: percent },
      ],
    });
  };
});

figure("scores-matrix", ["token", "layer", "head"], (root) => {
  const { d_k, causal } = page.data.model;
  const { tokens } = page.data.text;
  const n = tokens.length;
  const bar = controls(root);
  chooseLayer(bar);
  chooseHead(bar);
  const MASK = 2;
  const SOFTMAX = 3;
  let step = SOFTMAX;
  choice(bar, {
    label: "Step",
    options: ["q · k", "÷ √dₖ", "mask", "softmax"],
    value: step,
    change: (i) => {
      step = i;
      draw();
    },
  });
  partTitle(root, el("small", {}, "A row for each query, a column for each key"));
  const showCells = grid(root, {
    label: "Attention matrix, a row for each query and a column for each key",
    rows: n,
    columns: n,
    largestCell: 22,
    rowLabels: tokens,
    columnLabels: tokens,
    color: () => "transparent",
    pick: (r) => choose({ token: r }),
    describe: explain,
  });
  const showScale = legend(root);
  const show = readout(root);
  let products = []; // q · k of every query and key

  function explain(r, c) {
    const { head } = page.state;
    const who = ["Query ", Q(tokens[r]), ` at ${r}, key `, K(tokens[c]), ` at ${c}:`];
    if (step >= MASK && causal && c > r) {
      const why = "The key comes later, so the score is set to −∞";
      show(who, step === MASK ? `${why}.` : [`${why}, and `, power(-Infinity), " = 0: exactly no weight."]);
      return;
    }
    const product = [Q("q"), " · ", K("k"), ` = ${number(products[r][c])}`];
    const score = attention("scores").at(head, r, c);
    if (step === 0) show(who, product);
    else if (step < SOFTMAX) show(who, [product, ` and / √${d_k}: `, strong(number(score))]);
    else {
      const keys = allowed(r);
      const total = sum(Array.from(attention("scores").row(head, r).subarray(0, keys), Math.exp));
      const weight = attention("pattern").at(head, r, c);
      show(who, [
        power(score),
        ` / Σ = ${number(Math.exp(score))} / ${number(total)} = `,
        strong(percent(weight)),
        ` of the row of ${keys} key${keys > 1 ? "s" : ""}`,
      ]);
    }
  }

  function draw() {
    const { head, token } = page.state;
    products = tokens.map((_, r) => {
      const query = attention("q").row(head, r);
      return tokens.map((_, c) => dot(query, attention("k").row(head, c)));
    });
    const factor = step === 0 ? 1 : 1 / Math.sqrt(d_k);
    const visible = step < MASK ? products.flat() : products.flatMap((row, r) => row.slice(0, allowed(r)));
    const weights = attention("pattern");
    const scale =
      step === SOFTMAX
        ? amountScale(1, "weight")
        : signedScale(largestSize(visible) * factor, step === 0 ? "q · k" : "score");
    showCells(
      {
        color: (r, c) => scale.color(step === SOFTMAX ? weights.at(head, r, c) : products[r][c] * factor),
        hidden: step >= MASK && causal ? (r, c) => c > r : null,
        chosen: { row: token },
      },
      [token, ranked(weights.row(head, token))[0]],
    );
    showScale(scale);
  }

  return draw;
});

const MOST_VALUES = 5; // that are drawn one by one

figure("scores-mix", ["token", "layer", "head"], (root) => {
  const { d_k } = page.data.model;
  const { tokens } = page.data.text;
  chooseQuery(root);
  const lines = MOST_VALUES + 2;
  let parts = [];
  const showStrips = strips(root, {
    label: "Weighted values and their sum",
    width: d_k,
    lines,
    cellHeight: 20,
    describe: explain,
  });
  const showScale = legend(root);
  const show = readout(root);

  function explain(r, c) {
    const { label, key, weight, value, values } = parts[r];
    if (!label) return;
    const result = strong(number(values[c]));
    if (label === "z") {
      const z = values[c];
      const column = rowOfQuery("pattern").map((_, s) => attention("v").at(page.state.head, s, c));
      show([
        `z[${c}] = Σ weight · `,
        V(`v[${c}]`),
        " = ",
        sumOfProducts(rowOfQuery("pattern"), column, z, { right: V }),
        " = ",
        result,
      ]);
    } else if (key === undefined) {
      show([`All other keys together give ${c} `, result]);
    } else {
      show(
        [
          `weight × `,
          V(`v[${c}]`),
          " of ",
          tokenName(tokens[key]),
          ` (at ${key}) = ${number(weight)} × `,
          V(inside(value[c])),
          " = ",
          result,
        ],
        `It goes into z[${c}] = ${number(parts.at(-1).values[c])}.`,
      );
    }
  }

  return () => {
    const { head, token } = page.state;
    const weights = rowOfQuery("pattern");
    const z = attention("z").row(head, token);
    const nothing = { label: "", values: new Float32Array(d_k) };
    parts = ranked(weights)
      .slice(0, MOST_VALUES)
      .map((key) => {
        const weight = weights[key];
        const value = attention("v").row(head, key);
        const label = `${percent(weight)} ${tokens[key]}`;
        return { key, weight, value, label, values: value.map((x) => x * weight), tone: "value" };
      });
    const others = weights.length - parts.length;
    const rest = {
      label: `${others} others`,
      values: z.map((x, i) => x - sum(parts.map((part) => part.values[i]))),
    };
    while (parts.length < MOST_VALUES) parts.push(nothing);
    parts.push(others ? rest : nothing, { label: "z", values: z });
    showScale(showStrips(parts, [lines - 1, largestAt(z)]), "weight × v, and z");
  };
});

// How many rows have their largest weight in each tenth, as upright bars.
function histogram(title, counts, most) {
  const told = counts.map((n, i) => `${n} rows from ${i * 10} to ${i * 10 + 10}%`).join(", ");
  const bar = (n) =>
    el("div", {}, el("span", {}, n || ""), el("i", { style: { height: `${(100 * n) / most}%` } }));
  const axis = ["0", "largest weight of a row", "1"].map((text) => el("span", {}, text));
  return [
    el("div", { class: "histogram", role: "img", "aria-label": `${title}: ${told}` }, counts.map(bar)),
    el("div", { class: "histogram-axis" }, axis),
  ];
}

figure("scores-saturation", [], (root) => {
  const { rows, scaled, unscaled } = chapterData("scores").saturation;
  if (!rows) {
    note(root, "The text is too short: it takes rows of at least four keys to see this.");
    return;
  }
  const most = Math.max(...scaled.counts, ...unscaled.counts);
  const both = el("div", { class: "columns" });
  root.append(both);
  for (const [title, { counts, gradient }] of [
    ["As it is, divided", scaled],
    ["Without the division", unscaled],
  ]) {
    const side = el("div");
    both.append(side);
    partTitle(side, title, " ", el("small", {}, "number of rows"));
    side.append(...histogram(title, counts, most));
    note(side, "mean Σ p(1 − p): ", strong(number(gradient)));
  }
  const share = number(scaled.gradient / unscaled.gradient, 2);
  note(
    root,
    `${integer(rows)} rows, of all blocks and heads. The division keeps ${share} times as much of softmax's slope.`,
  );
});

// What a cell of an attention pattern says.
function weightSaid(query, key, weight) {
  const { tokens } = page.data.text;
  if (page.data.model.causal && key > query) return "Later tokens get exactly no weight.";
  return [
    ...[Q(tokens[query]), ` (at ${query}) gives `, strong(percent(weight))],
    ...[" of its attention to ", K(tokens[key]), ` (at ${key})`],
  ];
}

figure("scores-fill", ["layer", "head"], (root) => {
  const { tokens } = page.data.text;
  const n = tokens.length;
  const { passes, difference } = chapterData("scores").one_by_one;
  let read = n;
  const bar = controls(root);
  slider(bar, {
    label: "Tokens read",
    min: 1,
    max: n,
    value: n,
    format: integer,
    change: (i) => {
      read = i;
      draw();
    },
  });
  chooseLayer(bar);
  chooseHead(bar);
  const showCells = grid(root, {
    label: "Attention weights of the tokens read so far",
    rows: n,
    columns: n,
    largestCell: 14,
    rowLabels: tokens,
    columnLabels: tokens,
    color: () => "transparent",
    describe: (r, c) =>
      show(
        Math.max(r, c) < read ? weightSaid(r, c, attention("pattern").at(page.state.head, r, c)) : "Not read yet.",
      ),
  });
  const scale = amountScale(1, "weight");
  legend(root, scale);
  const show = readout(root);
  if (passes) {
    note(
      root,
      `Computed both ways, all ${passes} tokens in one pass, and one after the other with the keys and values of `,
      "those before kept in a cache, the weights of all heads differ by at most ",
      strong(number(difference, 2)),
      ", the rounding of 32-bit numbers.",
    );
  } else {
    note(root, "Your model is not causal: every token sees all others, so rows do change as tokens come.");
  }
  function draw() {
    const pattern = attention("pattern");
    showCells(
      {
        color: (r, c) =>
          r < read && c < read ? scale.color(pattern.at(page.state.head, r, c)) : rgb(palette.paper),
        hidden: (r, c) => page.data.model.causal && c > r && r < read,
        chosen: { row: read - 1 },
      },
      [read - 1, read - 1],
    );
  }
  return draw;
});
