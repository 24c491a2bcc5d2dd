// Chapter 12: a computation graph, walked backward step by step.

const CARD = { width: 132, gap: 30, margin: 8, indent: 9, value: 49 }; // in pixels; `value`: where numbers begin
const NAME_LETTER = 6.6; // the width of a letter of a card's name, in pixels

// A packed tensor as rows of numbers: a single number is one row of one, a vector one row.
function matrixOf(entry) {
  const { shape, numbers } = unpackOnce(entry);
  const columns = shape.length ? shape.at(-1) : 1;
  return { shape, numbers, columns, rows: numbers.length / columns };
}

const singleNumber = (entry) => matrixOf(entry).numbers[0];

// --- the picture --------------------------------------------------------------------------------------------

const middleOf = (y) => CARD.margin + y;
const leftOf = (column) => CARD.margin + column * (CARD.width + CARD.gap);

// A matrix as a small picture, a pixel for each number.
function miniature(matrix) {
  const canvas = el("canvas", { width: matrix.columns, height: matrix.rows });
  const context = canvas.getContext("2d");
  const scale = signedScale(largestSize(matrix.numbers));
  matrix.numbers.forEach((x, i) => {
    context.fillStyle = scale.color(x);
    context.fillRect(i % matrix.columns, Math.floor(i / matrix.columns), 1, 1);
  });
  return canvas.toDataURL();
}

// A line of a card: a number, or the miniature of several with the size of the largest.
function cardLine(x, y, label, kind, entry) {
  const at = x + CARD.value;
  const group = svg("g", { class: kind }, svgText("walk-label", x + CARD.indent, y + 12, label, "start"));
  if (!entry) {
    group.append(svgText("walk-unknown", at, y + 12, "·", "start"));
    return group;
  }
  const matrix = matrixOf(entry);
  if (!matrix.shape.length) {
    group.append(svgText("walk-number", at, y + 12, number(matrix.numbers[0]), "start"));
    return group;
  }
  const place = { x: at, y: y + 1, width: CARD.width - 58, height: 14, preserveAspectRatio: "none" };
  group.append(
    svg("image", { class: "walk-map", ...place, href: miniature(matrix) }),
    svgText("walk-size", at, y + 26, `up to ±${number(largestSize(matrix.numbers), 2)}`, "start"),
  );
  return group;
}

// A card: the sign of its operation, its name, its value and, once it is known, its gradient.
function drawCard(card, isCurrent, isKnown) {
  const x = leftOf(card.column);
  const y = middleOf(card.y) - card.height / 2;
  const right = x + CARD.width;
  const group = svg(
    "g",
    { class: `walk-card ${card.kind}${isCurrent ? " current" : ""}` },
    svg("rect", { class: "walk-frame", x, y, width: CARD.width, height: card.height, rx: 7 }),
  );
  let at = x + CARD.indent;
  if (card.kind === "operation") {
    const width = 7.4 * card.sign.length + 12;
    group.append(
      svg("rect", { class: "walk-sign", x: at - 2, y: y + 5, width, height: 17, rx: 8.5 }),
      svgText("walk-name", at + 4, y + 18, card.sign, "start"),
    );
    at += width + 4;
  }
  const name = svgText("walk-name", at, y + 18, card.name, "start");
  if (NAME_LETTER * [...card.name].length > right - at - 4) {
    name.setAttribute("textLength", right - at - 5);
    name.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
  const valueHeight = matrixOf(card.value).shape.length ? 31 : 17;
  group.append(
    name,
    cardLine(x, y + 25, "value", "walk-value", card.value),
    cardLine(x, y + 25 + valueHeight, "grad", "walk-gradient", isKnown ? card.gradient : null),
  );
  return group;
}

// A link from a card to the one that is made from it; an active one has a gradient on its way back.
function drawLink(link, { cards, links }, isActive) {
  const [source, target] = [cards[link.source], cards[link.target]];
  const heightNear = (one) => (one.passes.length ? one.passes.at(-1)[1] : cards[one.source].y);
  const entering = links.filter((one) => one.target === link.target).sort((a, b) => heightNear(a) - heightNear(b));
  const start = [leftOf(source.column) + CARD.width, middleOf(source.y)];
  let [x, y] = start;
  let path = `M${x} ${y}`;
  const bend = (toX, toY) => {
    path += `C${(x + toX) / 2} ${y} ${(x + toX) / 2} ${toY} ${toX} ${toY}`;
    [x, y] = [toX, toY];
  };
  for (const [column, passing] of link.passes) {
    bend(leftOf(column), middleOf(passing));
    path += `h${CARD.width}`;
    x += CARD.width;
  }
  bend(leftOf(target.column) - 1, middleOf(target.y) + (entering.indexOf(link) - (entering.length - 1) / 2) * 16);
  const parts = svg(
    "g",
    { class: isActive ? "walk-link active" : "walk-link" },
    svg("path", { class: "line", d: path }),
  );
  if (isActive) parts.append(svg("path", { class: "head", d: `M${start.join(" ")}l8 -4v8z` }));
  return parts;
}

// --- the walk -----------------------------------------------------------------------------------------------

// Draw the graph, and let the reader go back through it a step at a time.  `origin` says what arrives at its
// output; `names.element(i)` what the i-th row of a matrix belongs to, and `names.byKey(name)` whether the
// elements of that vector belong to the same.
function walk(root, { graph, origin, names }) {
  const { cards, links, steps } = graph;
  const width = leftOf(graph.columns) - CARD.gap + CARD.margin;
  const height = graph.height + 2 * CARD.margin;
  const knownFrom = new Map([[steps[0].card, 0]]); // from which step on a card's gradient is known
  steps.forEach((step, k) => step.flows.forEach((flow) => knownFrom.set(flow.target, k + 1)));
  let at = 0; // how many steps were taken
  const bar = controls(root);
  const back = button(bar, "◀ Back", () => go(at - 1));
  const next = button(bar, "Step ▶", () => go(at + 1));
  next.classList.add("primary");
  const time = slider(bar, {
    ...{ label: "", min: 0, max: steps.length, value: 0, change: go },
    format: (k) => (k ? `step ${k} of ${steps.length}` : "before the walk"),
  });
  time.input.setAttribute("aria-label", "Step of the walk back");
  const label = "The graph; it can be scrolled";
  const frame = el("div", { class: "scroll walk", tabindex: 0, role: "group", "aria-label": label });
  const panel = el("div", { class: "walk-panel" });
  root.append(frame, panel);

  function draw() {
    const step = steps[at - 1] || { card: null, flows: [] };
    const reached = step.flows.map((flow) => flow.argument);
    const drawing = svg("svg", {
      ...{ viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
      "aria-label": `Computation graph with ${cards.length} boxes, values and gradients`,
    });
    for (const link of links) {
      drawing.append(drawLink(link, graph, link.target === step.card && reached.includes(link.argument)));
    }
    cards.forEach((card, k) => {
      const group = drawCard(card, k === step.card, knownFrom.get(k) <= at);
      const own = steps.findIndex((one) => one.card === k);
      if (own >= 0) {
        group.classList.add("can-go");
        group.addEventListener("click", () => go(own + 1));
      }
      drawing.append(group);
    });
    frame.replaceChildren(drawing);
    const shown = cards[step.card ?? steps[0].card];
    frame.scrollLeft = Math.max(0, leftOf(shown.column) + CARD.width / 2 - frame.clientWidth / 2);
  }

  function go(k) {
    at = Math.max(0, Math.min(steps.length, k));
    time.set(at);
    back.disabled = at === 0;
    next.disabled = at === steps.length;
    draw();
    const told = el("div");
    panel.replaceChildren(told);
    if (at) tellStep(told, at, graph, names);
    else told.append(el("p", { class: "walk-title" }, ...origin));
  }

  go(0);
  painted.add({ canvas: frame, draw });
}

// --- a step in words ----------------------------------------------------------------------------------------

// What a step does: what arrives, and for each input the rule, what it is given, and what it returns.
function tellStep(panel, k, graph, names) {
  const step = graph.steps[k - 1];
  panel.append(el("p", { class: "walk-title" }, el("b", {}, `${k}. `), el("code", {}, step.expression)));
  if (matrixOf(step.gradient).shape.length) tellArrays(panel, step, graph, names);
  else tellNumbers(panel, step, graph.cards);
}

// "to w, by the rule g * x", with some of what the rule was given.
function ruleSaid(flow, cards, given, ...more) {
  const rule = el("code", {}, flow.rule.replace(/\.$/, ""));
  const values = given.length ? ` with ${given.join(", ")}` : "";
  return el(
    "p",
    { class: "walk-flow" },
    "to ",
    el("b", {}, cards[flow.target].name),
    ", by the rule ",
    rule,
    values,
    ...more,
  );
}

// The arrays that a rule was given, by name; all else that it was given is text.
const arraysOf = (flow) => Object.entries(flow.values).filter(([, value]) => typeof value === "object");

// A step whose gradients are single numbers.
function tellNumbers(panel, step, cards) {
  panel.append(
    el("p", { class: "walk-flow" }, "arrives: ", strong(`g = ${number(singleNumber(step.gradient), 4)}`)),
  );
  for (const flow of step.flows) {
    const given = arraysOf(flow).map(([name, value]) => `${name} = ${number(singleNumber(value), 4)}`);
    const [, ...evaluated] = flow.code ? flow.evaluated.split(" = ") : [];
    const result = evaluated.join(" = ") || number(singleNumber(flow.returned), 4);
    panel.append(ruleSaid(flow, cards, given, ": ", el("code", {}, result)));
    for (const [helper, what] of Object.entries(flow.helpers)) {
      panel.append(el("p", { class: "walk-flow" }, el("code", {}, helper), `: ${what}`));
    }
  }
}

// A step whose gradients are vectors or matrices: each with all that its rule was given, and what it returned.
function tellArrays(panel, step, { cards, links }, names) {
  let showLargest = null;
  for (const flow of step.flows) {
    const options = Object.entries(flow.values).filter(
      ([name, value]) => typeof value === "string" && !name.endsWith("_shape") && name !== "dim",
    );
    panel.append(
      ruleSaid(
        flow,
        cards,
        options.map(([name, value]) => `${name} = ${number(Number(value), 4)}`),
      ),
    );
    const own = cards[step.card].name;
    const cardNamed = (argument) => {
      if (argument === "out") return own;
      const link = links.find((one) => one.target === step.card && one.argument === argument);
      return link && cards[link.source].name;
    };
    const lines = [["g", step.gradient], ...arraysOf(flow)].map(([argument, entry]) => {
      const of = cardNamed(argument);
      return { name: of ? `${argument} = ${of}` : argument, of: of || own, matrix: matrixOf(entry) };
    });
    const target = cards[flow.target].name;
    const result = { name: `→ ${target}`, of: target, matrix: matrixOf(flow.returned), isResult: true };
    lines.push(result);
    const describe = (line, r, c) => show(...cellSaid(line, r, c, { flow, step, cards, names }));
    if (lines.every(({ matrix }) => matrix.numbers.length <= 8)) numberTable(panel, lines, names, describe);
    else for (const line of lines) matrixMap(panel, line, names, describe);
    const { numbers, columns } = result.matrix;
    const largest = largestAt(numbers);
    showLargest ??= () => describe(result, Math.floor(largest / columns), largest % columns);
  }
  const show = readout(panel);
  showLargest(); // of the first result, until the reader points at another number
}

// Short vectors as a table, a column for each element.
function numberTable(panel, lines, names, describe) {
  const head = Array.from(lines[0].matrix.numbers, (_, i) => el("th", {}, names.element(i)));
  const row = (line) => {
    const cells = Array.from(line.matrix.numbers, (x, i) => {
      const say = () => describe(line, 0, i);
      return el(
        "td",
        line.isResult ? { tabindex: 0, onpointerenter: say, onfocus: say, onclick: say } : {},
        number(x),
      );
    });
    return el("tr", { class: line.isResult ? "result" : "" }, el("td", {}, line.name), cells);
  };
  const table = el(
    "table",
    { class: "walk-table" },
    el("thead", {}, el("tr", {}, el("th", {}, ""), head)),
    el("tbody", {}, lines.map(row)),
  );
  panel.append(el("div", { class: "scroll" }, table));
}

// Longer ones as a map of cells.
function matrixMap(panel, line, names, describe) {
  const { shape, numbers, rows, columns } = line.matrix;
  const scale = signedScale(largestSize(numbers));
  const size = el("small", {}, ` ${shape.join(" × ")}, up to ±${number(scale.high, 2)}`);
  panel.append(el("p", { class: line.isResult ? "walk-map-title result" : "walk-map-title" }, line.name, size));
  const vectorLabel = names.byKey(line.of) ? "keys" : "";
  const showCells = grid(panel, {
    ...{ label: line.name, rows, columns, cellHeight: 18, largestCell: 22 },
    rowLabels: rows > 1 ? Array.from({ length: rows }, (_, r) => names.element(r)) : [vectorLabel],
    color: (r, c) => scale.color(numbers[r * columns + c]),
    describe: (r, c) => describe(line, r, c),
  });
  showCells();
}

// The formula of one number of a result, as lines; of a given one just its value.
function cellSaid(line, r, c, { flow, step, cards, names }) {
  const { rows, columns, numbers } = line.matrix;
  const value = numbers[r * columns + c];
  const result = strong(number(value, 4));
  let place = names.byKey(line.of) ? `key ${names.element(c)}` : `dimension ${c}`;
  if (rows > 1) place = `key ${names.element(r)}, dimension ${c}`;
  if (!line.isResult) return [[`${line.name}, ${place}: `, result]];
  const name = `gradient of ${cards[flow.target].name}, ${place}: `;
  if (flow.product) return [[name, productSaid(flow, step, r, c, value), " = ", result]];
  const g = matrixOf(step.gradient).numbers;
  if (cards[step.card].operation === "softmax") {
    const out = matrixOf(flow.values.out).numbers;
    const average = dot(g, out);
    const rule = `out · (g − Σ g · out) = ${number(out[c], 4)} × (${number(g[c], 4)} − ${inside(average, 4)}) = `;
    return [
      [name, rule, result],
      ["Σ g · out = ", sumOfProducts(g, out, average, { digits: 4 }), ` = ${number(average, 4)}`],
    ];
  }
  const y = Number(flow.values.y);
  return [[name, `g / y = ${number(g[c], 4)} / ${number(y, 4)} = `, result]];
}

// An element of a product of matrices, with its numbers: flow.product names the two factors, and the letters of
// their indices and of the result's.  The letter that the result lacks is summed over.
function productSaid(flow, step, r, c, value) {
  const [a, aLetters, b, bLetters, letters] = flow.product;
  const matrix = (name) => matrixOf(name === "g" ? step.gradient : flow.values[name]);
  const place = { [letters.at(-1)]: c };
  if (letters.length > 1) place[letters[0]] = r;
  const [summed] = [...aLetters, ...bLetters].filter((letter) => !(letter in place));
  const elements = (name, indices) => {
    const { numbers, rows, columns } = matrix(name);
    const n = summed === undefined ? 1 : indices.length > 1 && indices[0] === summed ? rows : columns;
    return Array.from({ length: n }, (_, i) => {
      const [first, second] = [...indices].map((letter) => (letter === summed ? i : place[letter]));
      return numbers[second === undefined ? first : first * columns + second];
    });
  };
  const products = sumOfProducts(elements(a, aLetters), elements(b, bLetters), value, { digits: 4 });
  return [summed === undefined ? `${a} · ${b} = ` : `Σ ${a} · ${b} = `, products];
}
