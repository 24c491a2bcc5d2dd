// Chapter 6: scores, mask, softmax.

const attention = (name, layer = page.state.layer) => tensor(`blocks.${layer}.attention.${name}`);

// How many keys a query may look at.
const allowed = (query) => (page.data.model.causal ? query + 1 : page.data.text.tokens.length);

function rawScore(query, key) {
  return dot(attention("q").row(page.state.head, query), attention("k").row(page.state.head, key));
}

figure("scores-why", ["token", "layer", "head"], (root) => {
  const { d_k } = page.data.model;
  const { tokens } = page.data.text;
  const setToken = chooseToken(root, "Choose the query");
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const setHead = chooseHead(bar);
  const keyTitle = el("p", { class: "part-title" });
  const stripTitle = el("p", { class: "part-title" });
  let at = 0;
  let rows = [];
  let show;
  root.append(keyTitle);
  const chart = columns(root, {
    label: "Weight of each key",
    rowHeight: 56,
    pick: (i) => chooseKey(i),
    describe: () => {},
  });
  root.append(stripTitle);
  const view = strips(root, {
    label: "Query, key and their products",
    width: d_k,
    lines: 3,
    cellHeight: 24,
    describe: explain,
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);

  function explain(r, c) {
    const { head, token } = page.state;
    const score = attention("scores").at(head, token, at);
    const weight = attention("pattern").at(head, token, at);
    const terms = largestProducts(rows[0], rows[1]).map(({ i, a, b, product }) => [
      Q(number(a)),
      " × ",
      K(inside(b)),
      ` = ${number(product)} in dimension ${i}`,
    ]);
    show(
      [
        "In dimension ",
        String(c),
        ": ",
        Q(number(rows[0][c])),
        " × ",
        K(inside(rows[1][c])),
        " = ",
        strong(number(rows[2][c])),
      ],
      ["The largest products: ", terms.flatMap((term, i) => (i ? [", ", ...term] : term))],
      [
        Q("q"),
        " · ",
        K("k"),
        ` / √${d_k} = ${number(dot(rows[0], rows[1]))} / ${number(Math.sqrt(d_k))} = `,
        strong(number(score)),
        `, which gets the weight ${percent(weight)}`,
      ],
    );
  }

  function chooseKey(i) {
    at = Math.min(i, allowed(page.state.token) - 1);
    const { head, token } = page.state;
    const q = attention("q").row(head, token);
    const k = attention("k").row(head, at);
    rows = [q, k, q.map((x, j) => x * k[j])];
    stripTitle.replaceChildren(
      Q("Query"),
      " of ",
      tokenName(tokens[token]),
      ", ",
      K("key"),
      " of ",
      tokenName(tokens[at]),
      ", and their products",
    );
    const shared = signedScale(largestSize(q, k));
    const products = signedScale(largestSize(rows[2]));
    view.update(
      [
        { label: "q", values: q, tone: "query", scale: shared },
        { label: "k", values: k, tone: "key", scale: shared },
        { label: "q × k", values: rows[2], scale: products },
      ],
      [2, largestAt(rows[2])],
    );
    scalePlace.replaceChildren(
      el("div", { class: "legends" }, legend(null, shared, "q, k"), legend(null, products, "q × k")),
    );
    const n = allowed(token);
    chart({
      labels: tokens.slice(0, n),
      chosen: at,
      at,
      rows: [
        {
          label: "weight",
          values: Array.from(attention("pattern").row(head, token).subarray(0, n)),
          most: undefined,
        },
      ],
    });
  }

  return () => {
    const { head, token } = page.state;
    setToken();
    setLayer();
    setHead();
    keyTitle.replaceChildren("Where ", tokenName(tokens[token]), " looks ", el("small", {}, "choose a key"));
    chooseKey(ranked(attention("pattern").row(head, token).subarray(0, allowed(token)))[0]);
  };
});

figure("scores-row", ["token", "layer", "head"], (root) => {
  const { tokens } = page.data.text;
  const setToken = chooseToken(root, "Choose the query");
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const setHead = chooseHead(bar);
  let numbers = {};
  let show;
  const chart = columns(root, {
    label: "Score, exponential and weight of each key",
    rowHeight: 58,
    describe: (i) =>
      show(
        [
          "Key ",
          tokenName(tokens[i]),
          ": score ",
          strong(number(numbers.scores[i])),
          ",  e^",
          number(numbers.scores[i]),
          " = ",
          strong(number(numbers.powers[i])),
        ],
        [
          `weight = ${number(numbers.powers[i])} / ${number(numbers.total)} = `,
          strong(percent(numbers.weights[i])),
          `   (${number(numbers.total)} is the sum of all ${numbers.scores.length})`,
        ],
      ),
  });
  show = readout(root);
  return () => {
    const { head, token } = page.state;
    const n = allowed(token);
    setToken();
    setLayer();
    setHead();
    const scores = Array.from(attention("scores").row(head, token).subarray(0, n));
    const weights = Array.from(attention("pattern").row(head, token).subarray(0, n));
    const powers = scores.map(Math.exp);
    numbers = { scores, weights, powers, total: powers.reduce((a, b) => a + b, 0) };
    chart({
      labels: tokens.slice(0, n),
      at: ranked(weights)[0],
      rows: [
        { label: "score", values: scores, signed: true },
        { label: "e^score", values: powers },
        { label: "weight", values: weights },
      ],
    });
  };
});

figure("scores-matrix", ["token", "layer", "head"], (root) => {
  const { d_k, causal } = page.data.model;
  const { tokens } = page.data.text;
  const n = tokens.length;
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const setHead = chooseHead(bar);
  const steps = ["q · k", "÷ √dₖ", "mask", "softmax"];
  let step = 3;
  let show;
  choice(bar, {
    label: "Step",
    options: steps,
    value: step,
    change: (i) => {
      step = i;
      draw();
    },
  });
  const view = grid(root, {
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
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  let raw = [];

  function explain(r, c) {
    const { head } = page.state;
    const score = attention("scores").at(head, r, c);
    const weight = attention("pattern").at(head, r, c);
    const who = ["Query ", Q(tokens[r]), ` at ${r}, key `, K(tokens[c]), ` at ${c}:`];
    if (step >= 2 && causal && c > r) {
      show(
        who,
        step === 2
          ? "The key comes later, so the score is set to −∞."
          : "e^−∞ = 0: the key comes later, and has exactly no weight.",
      );
      return;
    }
    const product = [Q("q"), " · ", K("k"), ` = ${number(raw[r][c])}`];
    if (step === 0) show(who, product);
    else if (step < 3) show(who, [...product, `,  / √${d_k} = `, strong(number(raw[r][c] / Math.sqrt(d_k)))]);
    else {
      const row = Array.from(attention("scores").row(head, r).subarray(0, allowed(r)));
      const total = row.reduce((sum, x) => sum + Math.exp(x), 0);
      show(who, [
        `e^${number(score)} / Σ = ${number(Math.exp(score))} / ${number(total)} = `,
        strong(percent(weight)),
        ` of the row of ${allowed(r)} key${allowed(r) > 1 ? "s" : ""}`,
      ]);
    }
  }

  function draw() {
    const { head, token } = page.state;
    raw = tokens.map((_, r) => tokens.map((_, c) => rawScore(r, c)));
    const factor = step === 0 ? 1 : 1 / Math.sqrt(d_k);
    const value = step === 3 ? (r, c) => attention("pattern").at(head, r, c) : (r, c) => raw[r][c] * factor;
    const visible = step < 2 ? raw.flat() : raw.flatMap((row, r) => row.slice(0, allowed(r)));
    const scale =
      step === 3
        ? amountScale(1, "weight")
        : signedScale(largestSize(visible) * factor, step === 0 ? "q · k" : "score");
    view.update(
      {
        color: (r, c) => scale.color(value(r, c)),
        hidden: step >= 2 && causal ? (r, c) => c > r : null,
        chosen: { row: token },
      },
      view.canvas.matches(":focus") ? undefined : [token, ranked(attention("pattern").row(head, token))[0]],
    );
    scalePlace.replaceChildren(legend(null, scale));
  }

  return () => {
    setLayer();
    setHead();
    draw();
  };
});

figure("scores-mix", ["token", "layer", "head"], (root) => {
  const { d_k } = page.data.model;
  const { tokens } = page.data.text;
  const most = 5;
  const lines = most + 2;
  const setToken = chooseToken(root, "Choose the query");
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const setHead = chooseHead(bar);
  let parts = [];
  let show;
  const view = strips(root, {
    label: "Weighted values and their sum",
    width: d_k,
    lines,
    cellHeight: 20,
    describe: explain,
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  function explain(r, c) {
    const part = parts[r];
    if (!part) return;
    const z = parts[lines - 1].values[c];
    if (part.key !== undefined)
      show(
        [
          `${percent(part.weight)} of the `,
          V("value"),
          " of ",
          tokenName(tokens[part.key]),
          ` (at ${part.key}), number ${c + 1}: ${number(part.weight)} × `,
          V(number(part.value[c])),
          " = ",
          strong(number(part.values[c])),
        ],
        `It goes into z[${c}] = ${number(z)}.`,
      );
    else
      show([
        part.label === "z" ? `z[${c}] = ` : `All other keys together give number ${c + 1}: `,
        strong(number(part.values[c])),
      ]);
  }
  return () => {
    const { head, token } = page.state;
    const n = allowed(token);
    const weights = Array.from(attention("pattern").row(head, token).subarray(0, n));
    setToken();
    setLayer();
    setHead();
    const order = ranked(weights);
    const z = attention("z").row(head, token);
    parts = order.slice(0, most).map((key) => {
      const value = attention("v").row(head, key);
      return {
        key,
        weight: weights[key],
        value,
        label: `${percent(weights[key])} ${tokens[key]}`,
        values: value.map((x) => x * weights[key]),
        tone: "value",
      };
    });
    while (parts.length < most) parts.push({ label: "", values: new Float32Array(d_k) });
    const others =
      n > most ? z.map((x, i) => x - parts.reduce((sum, part) => sum + part.values[i], 0)) : new Float32Array(d_k);
    parts.push({ label: n > most ? `${n - most} others` : "", values: others }, { label: "z", values: z });
    const scale = view.update(parts, [lines - 1, largestAt(z)]);
    scalePlace.replaceChildren(legend(null, scale, "weight × v, and z"));
  };
});

figure("scores-saturation", [], (root) => {
  const { saturation } = chapterData("scores");
  if (!saturation.rows) {
    note(root, "The text is too short: it takes rows of at least four keys to see this.");
    return null;
  }
  const side = (name, title) => {
    const { counts, gradient } = saturation[name];
    const most = Math.max(...saturation.scaled.counts, ...saturation.unscaled.counts);
    const box = el("div", {}, el("p", { class: "part-title" }, title));
    box.append(
      el(
        "div",
        {
          class: "histogram",
          role: "img",
          "aria-label": `${title}: ${counts.map((n, i) => `${n} rows from ${i * 10} to ${i * 10 + 10}%`).join(", ")}`,
        },
        counts.map((n) =>
          el(
            "div",
            {},
            el("span", {}, n ? String(n) : ""),
            el("i", { style: { height: `${(100 * n) / most}%` } }),
          ),
        ),
      ),
      el(
        "div",
        { class: "histogram-axis" },
        el("span", {}, "0"),
        el("span", {}, "largest weight of a row"),
        el("span", {}, "1"),
      ),
      el("p", { class: "note" }, "mean Σ p(1 − p): ", strong(number(gradient))),
    );
    return box;
  };
  const { scaled, unscaled } = saturation;
  root.append(
    el("div", { class: "columns" }, side("scaled", "As it is, divided"), side("unscaled", "Without the division")),
  );
  note(
    root,
    `${integer(saturation.rows)} rows, of all blocks and heads. The division keeps ${number(scaled.gradient / unscaled.gradient, 2)} times as much of softmax's slope.`,
  );
  return null;
});

figure("scores-fill", ["layer", "head"], (root) => {
  const { tokens } = page.data.text;
  const n = tokens.length;
  const { one_by_one } = chapterData("scores");
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
  const setLayer = chooseLayer(bar);
  const setHead = chooseHead(bar);
  const view = grid(root, {
    label: "Attention weights of the tokens read so far",
    rows: n,
    columns: n,
    largestCell: 14,
    rowLabels: tokens,
    columnLabels: tokens,
    color: () => "transparent",
  });
  const scale = amountScale(1, "weight");
  legend(root, scale);
  if (one_by_one.passes) {
    note(
      root,
      `Computed both ways, all ${one_by_one.passes} tokens in one pass, and one after the other with the keys and values of those before kept in a cache, the weights of all heads differ by at most `,
      strong(one_by_one.difference === 0 ? "0" : number(one_by_one.difference, 2)),
      ", the rounding of 32-bit numbers.",
    );
  } else {
    note(root, "Your model is not causal: every token sees all others, so rows do change as tokens come.");
  }
  function draw() {
    const { head } = page.state;
    const pattern = attention("pattern");
    view.update({
      color: (r, c) => (r < read && c < read ? scale.color(pattern.at(head, r, c)) : rgb(palette.paper)),
      hidden: (r, c) => page.data.model.causal && c > r && r < read,
      chosen: { row: read - 1 },
    });
  }
  return () => {
    setLayer();
    setHead();
    draw();
  };
});
