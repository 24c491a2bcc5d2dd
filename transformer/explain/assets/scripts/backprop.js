// Chapter 12: backprop.

const CARD = 132;
const CARD_GAP = 30;
const CARD_MARGIN = 8; // the width of a card, and the room between columns and around

// A figure of this chapter, or a sentence in its place where there is nothing to learn from.
function lesson(name, uses, build) {
  figure(name, uses, (root) => {
    if (chapterData("backprop").loss !== null) return build(root);
    note(root, "Your text is a single token: there is no next one to learn from. Give a longer text.");
    return null;
  });
}

// --- a graph, walked backward -------------------------------------------------------------------------------

// A packed tensor as rows of numbers: a single number is one row of one, a vector one row.
function matrixOf(entry) {
  const { shape, numbers } = unpackOnce(entry);
  const columns = shape.length ? shape[shape.length - 1] : 1;
  return { shape, numbers, columns, rows: columns ? numbers.length / columns : 0 };
}

// A matrix as a small picture, a pixel for each number, for inside a card.
function picture(matrix) {
  const canvas = el("canvas", { width: matrix.columns, height: matrix.rows });
  const context = canvas.getContext("2d");
  const scale = signedScale(largestSize(matrix.numbers));
  for (let r = 0; r < matrix.rows; r++) {
    for (let c = 0; c < matrix.columns; c++) {
      context.fillStyle = scale.color(matrix.numbers[r * matrix.columns + c]);
      context.fillRect(c, r, 1, 1);
    }
  }
  return canvas.toDataURL();
}

// A line of a card: a number, or the picture of several with the size of the largest.
function cardLine(entry, x, y, label, tone, known) {
  const group = svg(
    "g",
    { class: `walk-line ${tone}` },
    svg("text", { class: "walk-label", x, y: y + 12 }, label),
  );
  if (!known) {
    group.append(svg("text", { class: "walk-unknown", x: x + 40, y: y + 12 }, "·"));
    return group;
  }
  const matrix = matrixOf(entry);
  if (!matrix.shape.length) {
    group.append(svg("text", { class: "walk-number", x: x + 40, y: y + 12 }, number(matrix.numbers[0])));
    return group;
  }
  group.append(
    svg("image", {
      x: x + 40,
      y: y + 1,
      width: CARD - 58,
      height: 14,
      preserveAspectRatio: "none",
      href: picture(matrix),
      class: "walk-map",
    }),
    svg("text", { class: "walk-size", x: x + 40, y: y + 26 }, `up to ±${number(largestSize(matrix.numbers), 2)}`),
  );
  return group;
}

// Draw the graph, and let the reader go back through it a step at a time.  `origin` says what arrives at its output;
// `explain.element(i)` what the i-th row of a matrix belongs to, and `explain.byKey(name)` whether the elements of a vector
// belong to the same.
function walk(root, { graph, origin, explain }) {
  const { cards, links, steps } = graph;
  const left = (card) => CARD_MARGIN + card.column * (CARD + CARD_GAP);
  const width = 2 * CARD_MARGIN + graph.columns * (CARD + CARD_GAP) - CARD_GAP;
  const height = graph.height + 2 * CARD_MARGIN;
  const middle = (y) => CARD_MARGIN + y;
  const firstKnown = new Map([[steps[0].card, 0]]);
  steps.forEach((step, k) => step.flows.forEach((flow) => firstKnown.set(flow.target, k + 1)));
  let at = 0;
  const bar = controls(root);
  const back = button(bar, "◀ Back", () => go(at - 1));
  const next = button(bar, "Step ▶", () => go(at + 1));
  next.classList.add("primary");
  const time = slider(bar, {
    label: "",
    min: 0,
    max: steps.length,
    value: 0,
    format: (k) => (k ? `step ${k} of ${steps.length}` : "before the walk"),
    change: (k) => go(k),
  });
  time.input.setAttribute("aria-label", "Step of the walk back");
  const frame = el("div", {
    class: "scroll walk",
    tabindex: 0,
    role: "group",
    "aria-label": "The graph; it can be scrolled",
  });
  const panel = el("div", { class: "walk-panel" });
  root.append(frame, panel);

  function link(entry, active) {
    const target = cards[entry.target];
    const source = cards[entry.source];
    const entering = links
      .filter((one) => one.target === entry.target)
      .sort((a, b) => heightNear(a) - heightNear(b));
    const y = middle(target.y) + (entering.indexOf(entry) - (entering.length - 1) / 2) * 16;
    let path = `M${left(source) + CARD} ${middle(source.y)}`;
    let x = left(source) + CARD;
    let from = middle(source.y);
    const bend = (toX, toY) => {
      path += `C${(x + toX) / 2} ${from} ${(x + toX) / 2} ${toY} ${toX} ${toY}`;
      [x, from] = [toX, toY];
    };
    for (const [column, passing] of entry.passes) {
      bend(CARD_MARGIN + column * (CARD + CARD_GAP), middle(passing));
      path += `h${CARD}`;
      x += CARD;
    }
    bend(left(target) - 1, y);
    const parts = svg(
      "g",
      { class: active ? "walk-link active" : "walk-link" },
      svg("path", { class: "line", d: path }),
    );
    if (active)
      parts.append(svg("path", { class: "head", d: `M${left(source) + CARD} ${middle(source.y)}l8 -4v8z` }));
    return parts;
  }

  function heightNear(entry) {
    return entry.passes.length ? entry.passes[entry.passes.length - 1][1] : cards[entry.source].y;
  }

  function drawCard(card, k) {
    const x = left(card);
    const y = middle(card.y) - card.height / 2;
    const current = at > 0 && steps[at - 1].card === k;
    const step = steps.findIndex((one) => one.card === k);
    const group = svg(
      "g",
      { class: `walk-card ${card.kind}${current ? " current" : ""}` },
      svg("rect", { class: "walk-frame", x, y, width: CARD, height: card.height, rx: 7 }),
    );
    let at_ = x + 9;
    if (card.kind === "operation") {
      const wide = 7.4 * card.sign.length + 12;
      group.append(
        svg("rect", { class: "walk-sign", x: at_ - 2, y: y + 5, width: wide, height: 17, rx: 8.5 }),
        svg("text", { class: "walk-name", x: at_ + 4, y: y + 18 }, card.sign),
      );
      at_ += wide + 4;
    }
    const room = Math.floor((x + CARD - at_ - 4) / 6.6);
    group.append(
      svg(
        "text",
        {
          class: "walk-name",
          x: at_,
          y: y + 18,
          textLength: [...card.name].length > room ? x + CARD - at_ - 5 : null,
          lengthAdjust: "spacingAndGlyphs",
        },
        card.name,
      ),
    );
    const tall = card.height > 70 ? 31 : 17;
    group.append(
      cardLine(card.value, x + 9, y + 25, "value", "walk-value", true),
      cardLine(
        card.gradient,
        x + 9,
        y + 25 + tall,
        "grad",
        "walk-gradient",
        firstKnown.has(k) && firstKnown.get(k) <= at,
      ),
    );
    if (step >= 0) {
      group.classList.add("can-go");
      group.addEventListener("click", () => go(step + 1));
    }
    return group;
  }

  function draw() {
    const drawing = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": `Computation graph with ${cards.length} boxes, values and gradients`,
    });
    const active = at > 0 ? steps[at - 1].card : -1;
    const reached = new Set(at > 0 ? steps[at - 1].flows.map((flow) => flow.argument) : []);
    for (const entry of links) drawing.append(link(entry, entry.target === active && reached.has(entry.argument)));
    cards.forEach((card, k) => drawing.append(drawCard(card, k)));
    frame.replaceChildren(drawing);
    const shown = cards[at > 0 ? active : steps[0].card];
    frame.scrollLeft = Math.max(0, left(shown) + CARD / 2 - frame.clientWidth / 2);
  }

  function go(k) {
    at = Math.max(0, Math.min(steps.length, k));
    time.set(at);
    back.disabled = at === 0;
    next.disabled = at === steps.length;
    draw();
    panel.replaceChildren();
    if (at) tell(panel, steps[at - 1], at, graph, explain);
    else panel.append(el("p", { class: "walk-title" }, ...origin));
  }

  go(0);
  grids.add({ canvas: frame, draw }); // so that the maps change with the colours of the page
}

// What a step does: what arrives, and for each input the rule, what it is given, and what it returns.
function tell(panel, step, k, { cards, links }, explain) {
  panel.append(el("p", { class: "walk-title" }, el("b", {}, `${k}. `), el("code", {}, step.expression)));
  const scalar = !matrixOf(step.gradient).shape.length;
  if (scalar) {
    panel.append(
      el("p", { class: "walk-flow" }, "arrives: ", strong(`g = ${number(matrixOf(step.gradient).numbers[0], 4)}`)),
    );
    for (const flow of step.flows) {
      const inputs = Object.entries(flow.values)
        .filter(([, value]) => typeof value === "object")
        .map(([name, value]) => `${name} = ${number(matrixOf(value).numbers[0], 4)}`);
      panel.append(
        el(
          "p",
          { class: "walk-flow" },
          "to ",
          el("b", {}, cards[flow.target].name),
          ", by the rule ",
          el("code", {}, flow.rule.replace(/\.$/, "")),
          inputs.length ? ` with ${inputs.join(", ")}` : "",
          ": ",
          el(
            "code",
            {},
            flow.code
              ? flow.evaluated.split(" = ").slice(1).join(" = ") || number(matrixOf(flow.returned).numbers[0], 4)
              : number(matrixOf(flow.returned).numbers[0], 4),
          ),
        ),
      );
      for (const [helper, what] of Object.entries(flow.helpers))
        panel.append(el("p", { class: "walk-flow" }, el("code", {}, helper), `: ${what}`));
    }
    return;
  }
  let show;
  let first = null;
  for (const flow of step.flows) {
    const given = [
      ["g", step.gradient],
      ...Object.entries(flow.values).filter(([, value]) => typeof value === "object"),
    ];
    const fixed = Object.entries(flow.values)
      .filter(([name, value]) => typeof value === "string" && !name.endsWith("_shape") && name !== "dim")
      .map(([name, value]) => `${name} = ${number(Number(value), 4)}`);
    panel.append(
      el(
        "p",
        { class: "walk-flow" },
        "to ",
        el("b", {}, cards[flow.target].name),
        ", by the rule ",
        el("code", {}, flow.rule.replace(/\.$/, "")),
        fixed.length ? ` with ${fixed.join(", ")}` : "",
      ),
    );
    const called = (name) =>
      name === "out"
        ? cards[step.card].name
        : links
            .map((one) => (one.target === step.card && one.argument === name ? cards[one.source].name : ""))
            .find(Boolean);
    const lines = given.map(([name, entry]) => ({
      name: called(name) ? `${name} = ${called(name)}` : name,
      matrix: matrixOf(entry),
      of: called(name) || cards[step.card].name,
    }));
    lines.push({
      name: `→ ${cards[flow.target].name}`,
      matrix: matrixOf(flow.returned),
      of: cards[flow.target].name,
      result: true,
    });
    const describe = (line, r, c) => show(...cellText(flow, step, cards, line, r, c, explain));
    if (lines.every((line) => line.matrix.numbers.length <= 8)) numberTable(panel, lines, explain, describe);
    else for (const line of lines) matrixMap(panel, line, explain, describe);
    const result = lines[lines.length - 1];
    const [most] = ranked(Array.from(result.matrix.numbers, Math.abs));
    first ??= () => describe(result, Math.floor(most / result.matrix.columns), most % result.matrix.columns);
  }
  show = readout(panel);
  first(); // the largest number of the first result, until the reader points at another
}

const subscript = (n) => [...String(n)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]).join("");

// Short vectors as a table, a column for each element.
function numberTable(panel, lines, explain, describe) {
  const n = lines[0].matrix.numbers.length;
  panel.append(
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "walk-table" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", {}, ""),
            Array.from({ length: n }, (_, i) => el("th", {}, explain.element(i))),
          ),
        ),
        el(
          "tbody",
          {},
          lines.map((line) =>
            el(
              "tr",
              { class: line.result ? "result" : "" },
              el("td", {}, line.name),
              Array.from(line.matrix.numbers, (x, i) => {
                const say = () => describe(line, 0, i);
                return el(
                  "td",
                  line.result ? { tabindex: 0, onpointerenter: say, onfocus: say, onclick: say } : {},
                  number(x),
                );
              }),
            ),
          ),
        ),
      ),
    ),
  );
}

// Longer ones as a map of cells.
function matrixMap(panel, line, explain, describe) {
  const { matrix } = line;
  const scale = signedScale(largestSize(matrix.numbers));
  panel.append(
    el(
      "p",
      { class: line.result ? "walk-map-title result" : "walk-map-title" },
      line.name,
      el("small", {}, ` ${matrix.shape.join(" × ")}, up to ±${number(scale.high, 2)}`),
    ),
  );
  grid(panel, {
    label: line.name,
    rows: matrix.rows,
    columns: matrix.columns,
    cellHeight: 18,
    largestCell: 22,
    rowLabels:
      matrix.rows > 1
        ? Array.from({ length: matrix.rows }, (_, r) => explain.element(r))
        : [explain.byKey(line.of) ? "keys" : ""],
    color: (r, c) => scale.color(matrix.numbers[r * matrix.columns + c]),
    describe: (r, c) => describe(line, r, c),
  });
}

// The formula of one number of a result; of a given one just its value.
function cellText(flow, step, cards, line, r, c, explain) {
  const { matrix } = line;
  const value = matrix.numbers[r * matrix.columns + c];
  const place =
    matrix.rows > 1
      ? `key ${explain.element(r)}, number ${c + 1}`
      : explain.byKey(line.of)
        ? `key ${explain.element(c)}`
        : `number ${c + 1}`;
  if (!line.result) return [[`${line.name}, ${place}: `, strong(number(value, 4))]];
  const name = `gradient of ${cards[flow.target].name}, ${place}`;
  if (flow.product) return [[`${name}: `, ...productText(flow, step, matrix, r, c, value)]];
  const g = matrixOf(step.gradient).numbers;
  if (cards[step.card].operation === "softmax") {
    const out = matrixOf(flow.values.out).numbers;
    const mean = dot(g, out);
    return [
      [
        `${name}: out · (g − Σ g · out) = ${number(out[c], 4)} · (${number(g[c], 4)} − ${bracketed(mean)}) = `,
        strong(number(value, 4)),
      ],
      `Σ g · out = ${Array.from(g, (x, i) => `${bracketed(x)} · ${number(out[i], 4)}`).join(" + ")} = ${number(mean, 4)}`,
    ];
  }
  const y = Number(flow.values.y);
  return [[`${name}: g / y = ${number(g[c], 4)} / ${number(y, 4)} = `, strong(number(value, 4))]];
}

const bracketed = (x) => (x < 0 ? `(${number(x, 4)})` : number(x, 4));

// A sum of products with its numbers: all of a short one, of a long one the largest, and the rest together.
function productText(flow, step, result, r, c, value) {
  const [a, aIndex, b, bIndex, outIndex] = flow.product;
  const entry = (name) => matrixOf(name === "g" ? step.gradient : flow.values[name]);
  const [left, right] = [entry(a), entry(b)];
  const at = { [outIndex[outIndex.length - 1]]: c };
  if (outIndex.length > 1) at[outIndex[0]] = r;
  const read = (matrix, letters, index) =>
    matrix.numbers[letters.length > 1 ? index[letters[0]] * matrix.columns + index[letters[1]] : index[letters]];
  const summed = [...new Set(aIndex + bIndex)].find((letter) => !(letter in at));
  if (!summed)
    return [
      `${a} · ${b} = ${bracketed(read(left, aIndex, at))} · ${bracketed(read(right, bIndex, at))} = `,
      strong(number(value, 4)),
    ];
  const n = aIndex.length > 1 ? (aIndex[1] === summed ? left.columns : left.rows) : left.columns;
  const terms = Array.from({ length: n }, (_, i) => {
    const index = { ...at, [summed]: i };
    return [read(left, aIndex, index), read(right, bIndex, index)];
  });
  const order =
    terms.length <= 5
      ? terms
      : ranked(terms.map(([x, y]) => Math.abs(x * y)))
          .slice(0, 4)
          .map((i) => terms[i]);
  const rest = value - order.reduce((sum, [x, y]) => sum + x * y, 0);
  const left_ = terms.length - order.length;
  return [
    `Σ ${a} · ${b} = ${order.map(([x, y]) => `${bracketed(x)} · ${bracketed(y)}`).join(" + ")}`,
    left_ ? ` + ${left_} smaller products that make ${bracketed(rest)}` : "",
    " = ",
    strong(number(value, 4)),
  ];
}

lesson("backprop-neuron", [], (root) => {
  const { neuron } = chapterData("backprop");
  const { tokens } = page.data.text;
  const g = matrixOf(neuron.graph.steps[0].gradient).numbers[0];
  walk(root, {
    graph: neuron.graph,
    explain: { element: (i) => String(i + 1), byKey: () => false },
    origin: [
      `Hidden unit ${neuron.unit + 1} of block ${neuron.layer + 1}, at `,
      tokenName(tokens[neuron.position]),
      `: its value is ${number(matrixOf(neuron.graph.cards[neuron.graph.steps[0].card].value).numbers[0])}. From the rest of the model arrives `,
      strong(`g = ${number(g)}`),
      `: if this value were larger by a little, the loss would ${g < 0 ? "fall" : "rise"} by ${number(Math.abs(g))} times as much.`,
    ],
  });
  const shares = neuron.inputs.map((input, i) => {
    const name = `w${subscript(input + 1)}`;
    const card = neuron.graph.cards.find((one) => one.name === name);
    return `${name}: ${number(matrixOf(card.gradient).numbers[0])} of ${number(neuron.whole[i])}`;
  });
  note(
    root,
    `A weight is used at every token of the text, and its whole gradient is the sum of what arrives from all of them. From this token alone: ${shares.join("; ")}.`,
  );
  return null;
});

lesson("backprop-head", [], (root) => {
  const { head } = chapterData("backprop");
  const { tokens } = page.data.text;
  const g = matrixOf(head.graph.steps[0].gradient).numbers;
  const dim = page.data.model.d_k;
  walk(root, {
    graph: head.graph,
    explain: { element: (i) => tokens[i], byKey: (name) => ["K·q", "scores", "weights"].includes(name) },
    origin: [
      `Head ${head.head + 1} of block ${head.layer + 1}. The query is that of `,
      tokenName(tokens[head.position]),
      ` at position ${head.position}; it sees ${head.keys} key${head.keys > 1 ? "s" : ""}, each of ${dim} numbers. From the rest of the model arrives g, `,
      strong(`${g.length} numbers of up to ±${number(largestSize(g), 2)}`),
      ", one for each number of z.",
    ],
  });
  note(
    root,
    `What arrives at q is complete: only this query uses it. To K and V other queries add their share, and from there the walk goes on into W_Q, W_K and W_V.`,
  );
  return null;
});

// --- the size of gradients ----------------------------------------------------------------------------------

const PARAMETER_NAMES = {
  "attention.W_Q.weight": "W_Q",
  "attention.W_K.weight": "W_K",
  "attention.W_V.weight": "W_V",
  "attention.W_O.weight": "W_O",
  "attention.W_Q.bias": "b_Q",
  "attention.W_K.bias": "b_K",
  "attention.W_V.bias": "b_V",
  "attention.W_O.bias": "b_O",
  "ffn.expand.weight": "W₁",
  "ffn.expand.bias": "b₁",
  "ffn.contract.weight": "W₂",
  "ffn.contract.bias": "b₂",
  "norm_attention.weight": "γ attention",
  "norm_attention.bias": "β attention",
  "norm_ffn.weight": "γ FFN",
  "norm_ffn.bias": "β FFN",
};

lesson("backprop-sizes", ["step"], (root) => {
  const { names, snapshots } = chapterData("backprop").sizes;
  const blocks = page.data.model.n_layers;
  const kinds = names.filter((name) => name.startsWith("blocks.0.")).map((name) => name.slice("blocks.0.".length));
  const others = names.filter((name) => !name.startsWith("blocks."));
  const at = (name) => names.indexOf(name);
  const cell = (r, c) => at(`blocks.${r}.${kinds[c]}`);
  let now = snapshots[snapshots.length - 1];
  let low = 0;
  let high = 1;
  let show;
  const color = (x) =>
    x > 0
      ? along(
          [palette.paper, mix(palette.paper, palette.ink, 0.5), palette.ink],
          0.06 + (0.94 * (Math.log10(x) - low)) / (high - low || 1),
        )
      : rgb(palette.paper);
  const view = grid(root, {
    label: "Size of the gradient of each matrix",
    rows: blocks,
    columns: kinds.length,
    largestCell: 46,
    cellHeight: 30,
    rowLabels: Array.from({ length: blocks }, (_, i) => `block ${i + 1}`),
    columnLabels: kinds.map((kind) => PARAMETER_NAMES[kind] || kind),
    color: (r, c) => color(now.gradients[cell(r, c)]),
    describe: (r, c) => explain(PARAMETER_NAMES[kinds[c]] || kinds[c], `block ${r + 1}`, cell(r, c)),
  });
  const scalePlace = el("div", { class: "legend" });
  const rest = (root.append(scalePlace), note(root, ""));
  show = readout(root);
  function explain(name, where, i) {
    show([
      `${name}${where ? ` of ${where}` : ""}: gradients of size `,
      strong(number(now.gradients[i])),
      ` beside numbers of size ${number(now.values[i])}`,
    ]);
  }
  return () => {
    now = snapshots[Math.min(page.state.step, snapshots.length - 1)];
    const shown = now.gradients.filter((x, i) => x > 0 && names[i].startsWith("blocks."));
    const empty = now.gradients.filter((x) => x === 0).length;
    [low, high] = [Math.log10(Math.min(...shown)), Math.log10(Math.max(...shown))];
    const ramp = Array.from({ length: 9 }, (_, i) => color(10 ** (low + ((high - low) * i) / 8)));
    scalePlace.replaceChildren(
      el("span", {}, number(10 ** low, 2)),
      el("span", {
        class: "legend-ramp",
        role: "img",
        "aria-label": "from small to large",
        style: { background: `linear-gradient(to right, ${ramp.join(",")})` },
      }),
      el("span", {}, `${number(10 ** high, 2)} root mean square, in nats per unit`),
      el("span", {}, "(the scale is logarithmic)"),
    );
    rest.replaceChildren(
      empty
        ? `${empty} of ${names.length} matrices and vectors have a gradient of 0. `
        : `All ${names.length} matrices and vectors have a gradient that is not 0. `,
      "Outside the blocks: ",
      ...others.map(
        (name, i) =>
          `${i ? "; " : ""}${name === "embedding.token.weight" ? (page.data.model.tie_weights ? "the embedding table, which also gives the logits," : "the embedding table") : name} ${number(now.gradients[at(name)])}`,
      ),
      ".",
    );
    view.update({}, [0, 0]);
  };
});

lesson("backprop-residuals", [], (root) => {
  const { residuals } = chapterData("backprop");
  const bar = controls(root);
  const titles = [
    "your model",
    `${residuals[1].layers} untrained blocks without LayerNorm`,
    `${residuals[2].layers} untrained blocks with it`,
  ];
  let at = 1;
  let update;
  let show;
  choice(bar, {
    label: "Stack",
    options: titles,
    value: at,
    change: (i) => {
      at = i;
      draw();
    },
  });
  const series = () =>
    [
      ["with", "accent", false],
      ["without", "ink", true],
    ].map(([kind, tone, dashed]) => ({
      name: kind,
      tone,
      dashed,
      marks: true,
      points: residuals[at][kind].map((size, i) => [i, Math.log10(size)]),
    }));
  const options = () => ({
    series: series(),
    xLow: 0,
    xHigh: residuals[at].layers,
    xTicks: Array.from({ length: residuals[at].layers + 1 }, (_, i) => i),
    xFormat: (i) => (i === residuals[at].layers ? "end" : String(i + 1)),
  });
  update = chart(root, {
    ...options(),
    label: "Size of the gradient that arrives at each block",
    xLabel: "into block … (the walk goes from right to left)",
    yLabel: "length of the gradient",
    yFormat: (y) => (Number.isInteger(y) ? `10${superscript(y)}` : number(10 ** y, 2)),
    describe: (s, i) => {
      const stack = residuals[at];
      const kind = s ? "without" : "with";
      const last = stack[kind][stack.layers];
      show([
        `${s ? "Without" : "With"} residual connections, ${i === stack.layers ? "at the end of the stack" : `into block ${i + 1}`}: `,
        strong(number(stack[kind][i])),
        `, ${number(stack[kind][i] / last)} times what starts at the end`,
      ]);
    },
  });
  key(root, [
    { name: "with residual connections", tone: "accent" },
    { name: "without", tone: "ink", dashed: true },
  ]);
  const said = note(root, "");
  show = readout(root);
  function draw() {
    const stack = residuals[at];
    const share = (kind) => stack[kind][0] / stack[kind][stack.layers];
    update({ ...options(), at: [1, 0] });
    said.replaceChildren(
      `From the end of ${at ? `these ${stack.layers} blocks, of width ${stack.width}` : `your ${stack.layers} blocks`} to the input of the first, the gradient’s length is multiplied by `,
      strong(number(share("with"))),
      " with residual connections and by ",
      strong(number(share("without"))),
      " without.",
      at
        ? ""
        : " Your model was trained with them, so its twin without them is a stranger to its weights; and it is not deep.",
    );
  }
  draw();
  return null;
});

// --- a step -------------------------------------------------------------------------------------------------

lesson("backprop-step", [], (root) => {
  const { descent } = chapterData("backprop");
  const { tokens } = page.data.text;
  const targets = ["all", "last"];
  let target = 0;
  let size = 0;
  let at = 0;
  let show;
  const bar = controls(root);
  const sizePlace = el("div");
  choice(bar, {
    label: "Learn from",
    options: ["all tokens", "the last token"],
    value: target,
    change: (i) => {
      target = i;
      start();
    },
  });
  bar.append(sizePlace);
  const press = controls(root);
  const step = button(press, "", () => {
    at += 1;
    draw();
  });
  const again = button(press, "Start again", () => {
    at = 0;
    draw();
  });
  step.classList.add("primary");
  const cells = ["before", "after", "change", "promised change"].map((name) => ({
    name,
    loss: el("td", {}),
    chance: el("td", {}),
  }));
  root.append(
    el(
      "table",
      { class: "step-table" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["", "loss (nats)", "probability of the right token"].map((name) => el("th", {}, name)),
        ),
      ),
      el(
        "tbody",
        {},
        cells.map(({ name, loss, chance }) => el("tr", {}, el("td", {}, name), loss, chance)),
      ),
    ),
  );
  const said = note(root, "");
  const view = columns(root, {
    label: "Probability of each right token",
    rowHeight: 54,
    describe: (i) => {
      const path = states();
      const now = Math.exp(-path[at].losses[i]);
      const old = Math.exp(-path[Math.max(0, at - 1)].losses[i]);
      show([
        "After ",
        tokenName(tokens[i]),
        " comes ",
        tokenName(tokens[i + 1]),
        at ? `: its probability went from ${percent(old)} to ` : ": its probability is ",
        strong(percent(now)),
      ]);
    },
  });
  show = readout(root);
  const paths = () => descent[targets[target]];
  const states = () => paths()[size].states;
  const typical = (state) => Math.exp(-state.loss);
  function start() {
    at = 0;
    sizePlace.replaceChildren();
    choice(sizePlace, {
      label: "Step size",
      options: paths().map((path) => String(path.step_size)),
      value: size,
      change: (i) => {
        size = i;
        at = 0;
        draw();
      },
    });
    draw();
  }
  function draw() {
    const path = states();
    const now = path[at];
    const old = path[at - 1];
    const chances = (state) => state.losses.map((loss) => Math.exp(-loss));
    step.disabled = at >= path.length - 1;
    again.disabled = at === 0;
    step.textContent = at ? "Take another step" : "Take a step down";
    for (const { loss, chance } of cells) [loss.textContent, chance.textContent] = ["", ""];
    const [before, after, change, promise] = cells;
    const first = old || now;
    [before.loss.textContent, before.chance.textContent] = [number(first.loss, 4), percent(typical(first))];
    if (old) {
      after.loss.replaceChildren(strong(number(now.loss, 4)));
      after.chance.replaceChildren(strong(percent(typical(now))));
      change.loss.textContent = number(now.loss - old.loss);
      change.chance.textContent = `× ${number(typical(now) / typical(old))}`;
      const promised = -paths()[size].step_size * old.slope ** 2;
      promise.loss.textContent = number(promised);
      promise.chance.textContent = `× ${number(Math.exp(-promised))}`;
    }
    const likelier = old ? now.losses.filter((loss, i) => loss < old.losses[i]).length : 0;
    said.textContent = !old
      ? `The gradient has the length ${number(now.slope)}. The promised change of the loss is −step size · length².`
      : now.loss < old.loss
        ? `The loss fell: ${likelier} of ${now.losses.length} right tokens became likelier.`
        : `The loss rose: the step was so large that it left the ground on which the gradient was measured. ${likelier} of ${now.losses.length} right tokens became likelier.`;
    const rows = [{ label: old ? "after" : "now", values: chances(now), most: 1, tone: old ? "accent" : "muted" }];
    if (old) rows.unshift({ label: "before", values: chances(old), most: 1, tone: "muted" });
    view({ rows, labels: tokens.slice(1), at: tokens.length - 2 });
  }
  start();
  return null;
});
