// Curves and points over two axes, as SVG.

const LETTER = 6.6; // the width of a letter of an axis, in pixels

const svgLine = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
const svgText = (kind, x, y, text, anchor = "middle") =>
  svg("text", { class: kind, x, y, "text-anchor": anchor }, text);
const sidewaysText = (kind, x, y, text, anchor = "middle") =>
  svg("text", { class: kind, transform: `translate(${x} ${y}) rotate(-90)`, "text-anchor": anchor }, text);

// Put a new drawing in the place of the last one, which may have had the keyboard.
function replaceDrawing(box, drawing) {
  const focused = box.firstChild && document.activeElement === box.firstChild;
  box.replaceChildren(drawing);
  if (focused) drawing.focus({ preventScroll: true });
}

// --- axes ---------------------------------------------------------------------------------------------------

// Round steps for an axis from `low` to `high`.
function ticks(low, high, count = 5) {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-6; x += step) {
    found.push(Math.abs(x) < step * 1e-6 ? 0 : x);
  }
  return found;
}

// A tick's number without trailing zeros.
function tickText(x) {
  return Math.abs(x) >= 1000 ? integer(x) : String(Number(x.toPrecision(6))).replace("-", "−");
}

// Places for labels in a column, from above to below: near where they belong, but at least `gap` apart, none below
// `lowest`.
function apart(wanted, gap, lowest) {
  const places = [...wanted];
  for (let i = 1; i < places.length; i++) places[i] = Math.max(places[i], places[i - 1] + gap);
  for (let i = places.length - 1; i >= 0; i--) {
    places[i] = Math.min(places[i], i + 1 < places.length ? places[i + 1] - gap : lowest);
  }
  return places;
}

// Where a chart's lines go: the edges of its field in pixels, and from a value to its pixel.
function chartField(options, width) {
  const { unit } = palette;
  const { series, levels = [] } = options;
  const height = options.height * unit || Math.min(320, Math.max(200, width * 0.45));
  const range = (low, high, values) => {
    const finite = values.filter(Number.isFinite);
    const from = low ?? Math.min(...finite);
    const to = high ?? Math.max(...finite);
    return from === to ? [from - 1, to + 1] : [from, to];
  };
  const points = series.flatMap((one) => one.points);
  const [xLow, xHigh] = range(
    options.xLow,
    options.xHigh,
    points.map(([x]) => x),
  );
  const [yLow, yHigh] = range(options.yLow, options.yHigh, [
    ...points.map(([, y]) => y),
    ...levels.map(({ y }) => y),
  ]);
  const left = (options.yLabel ? 58 : 46) * unit;
  const right = width - (levels.length ? 86 : 12) * unit;
  const top = 10 * unit;
  const bottom = height - 40 * unit;
  return {
    ...{ width, height, left, right, top, bottom, xLow, xHigh, yLow, yHigh },
    x: (value) => left + ((value - xLow) / (xHigh - xLow)) * (right - left),
    y: (value) => bottom - ((value - yLow) / (yHigh - yLow)) * (bottom - top),
  };
}

function chartAxes(field, { xTicks, xFormat = tickText, yFormat = tickText }) {
  const { left, right, bottom, x, y } = field;
  const drawn = [svgLine("chart-axis", left, bottom, right, bottom)];
  for (const tick of ticks(field.yLow, field.yHigh)) {
    drawn.push(svgLine("chart-grid", left, y(tick), right, y(tick)));
    drawn.push(svgText("chart-tick", left - 6, y(tick) + 4, yFormat(tick), "end"));
  }
  let free = Infinity; // left of what is drawn already: of labels that would touch, the right one stays
  for (const tick of [...(xTicks || ticks(field.xLow, field.xHigh, field.width < 480 ? 4 : 7))].reverse()) {
    const text = xFormat(tick);
    const half = (LETTER * palette.unit * [...text].length) / 2;
    const middle = Math.min(x(tick), field.width - half);
    if (middle + half > free) continue;
    drawn.push(svgText("chart-tick", middle, bottom + 16 * palette.unit, text));
    free = middle - half - 2;
  }
  return drawn;
}

// --- what stands in the field -------------------------------------------------------------------------------

function chartLevels({ left, right, bottom, y }, levels) {
  const sorted = [...levels].sort((a, b) => b.y - a.y);
  const wanted = sorted.map((level) => y(level.y) + 4);
  const places = apart(wanted, 13 * palette.unit, bottom + 2);
  return sorted.flatMap((level, i) => [
    svgLine("chart-level", left, y(level.y), right, y(level.y)),
    svgText("chart-tick", right + 5, places[i], level.name, "start"),
  ]);
}

function chartVerticals({ left, right, top, bottom, x }, verticals) {
  return verticals.flatMap((mark) => {
    const place = x(mark.x);
    const [shift, anchor] = place > (left + right) / 2 ? [-5, "end"] : [5, "start"];
    return [
      svgLine("chart-vertical", place, top, place, bottom),
      svgText("chart-tick", place + shift, top + 10, mark.name, anchor),
    ];
  });
}

function chartCurve({ x, y }, { points, tone, dashed, marks }) {
  const visible = points.filter((point) => Number.isFinite(point[1]));
  const path = visible.map((point, i) => `${i ? "L" : "M"}${x(point[0]).toFixed(2)} ${y(point[1]).toFixed(2)}`);
  const drawn = [
    svg("path", {
      class: `chart-line ${dashed ? "dashed" : ""}`,
      d: path.join(""),
      style: `stroke: var(--${tone})`,
    }),
  ];
  const dots = marks ? visible : [];
  return [...drawn, ...dots.map((point) => chartDot(x(point[0]), y(point[1]), 3, tone))];
}

function chartNames({ x, y }, { points, tone, names, className }) {
  return points.map(([px, py], i) =>
    names[i]
      ? svgText(`chart-name ${className(i)}`, x(px), y(py) + 4, names[i])
      : chartDot(x(px), y(py), 1.3, tone),
  );
}

function chartDot(cx, cy, r, tone) {
  return svg("circle", { cx, cy, r, style: `fill: var(--${tone})` });
}

// --- a chart ------------------------------------------------------------------------------------------------

// chart(root, {label, xLabel, yLabel, series, levels: [{name, y}], verticals: [{name, x}], xLow, xHigh, yLow,
//              yHigh, height, xTicks, xFormat, yFormat, bare, describe(series, i), pick(series, i)})
//
// A series is a curve, {tone, points: [[x, y], …], dashed, marks}, or names at their places, {tone, points,
// names, className(i)}, with a dot for each name that is empty.  A bare chart has no axes.
//
// Returns update(changes), where `at` = [series, i] is a place for the cursor.  Arrow keys move it along a series.
function chart(root, options) {
  const box = el("div", { class: "chart" });
  root.append(box);
  let current = options;
  let cursor = null; // [series, i]
  let field = null;

  function draw() {
    field = chartField(current, Math.max(260, box.clientWidth));
    const { left, right, top, bottom, width, height } = field;
    const moves = Boolean(current.describe);
    const drawing = svg("svg", {
      ...{ viewBox: `0 0 ${width} ${height}`, width, height },
      role: moves ? "application" : "img",
      "aria-label": moves ? `${current.label}. Move with the arrow keys.` : current.label,
      tabindex: moves ? 0 : null,
    });
    if (!current.bare) drawing.append(...chartAxes(field, current));
    drawing.append(
      svgText("chart-label", (left + right) / 2, height - 6, current.xLabel || ""),
      sidewaysText("chart-label", 11 * palette.unit, (top + bottom) / 2, current.yLabel || ""),
      ...chartLevels(field, current.levels || []),
      ...chartVerticals(field, current.verticals || []),
      ...current.series.flatMap((one) => (one.names ? chartNames(field, one) : chartCurve(field, one))),
    );
    const point = cursor && current.series[cursor[0]].points[cursor[1]];
    if (point)
      drawing.append(svg("circle", { class: "chart-cursor", cx: field.x(point[0]), cy: field.y(point[1]), r: 6 }));
    replaceDrawing(box, drawing);
  }

  function move(place, pick = false) {
    if (!pick && cursor && cursor[0] === place[0] && cursor[1] === place[1]) return;
    cursor = place;
    draw();
    current.describe(...cursor);
    if (pick && current.pick) current.pick(...cursor);
  }

  // The point nearest to the pointer: over curves, how far it is to the side counts most.
  function nearest(event) {
    const frame = box.firstChild.getBoundingClientRect();
    const far = ([x, y]) =>
      Math.hypot(
        field.x(x) - event.clientX + frame.left,
        (current.bare ? 1 : 0.15) * (field.y(y) - event.clientY + frame.top),
      );
    let best = [0, 0];
    current.series.forEach((one, s) =>
      one.points.forEach((point, i) => {
        if (far(point) < far(current.series[best[0]].points[best[1]])) best = [s, i];
      }),
    );
    return best;
  }

  if (options.describe) {
    box.addEventListener("pointermove", (event) => move(nearest(event)));
    box.addEventListener("pointerdown", (event) => move(nearest(event), true));
    box.addEventListener("keydown", (event) => {
      const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const over = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!along && !over) return;
      event.preventDefault();
      const [s, i] = cursor || [0, -1];
      const { series } = current;
      if (over) move([(s + over + series.length) % series.length, Math.max(0, i)]);
      else move([s, Math.max(0, Math.min(series[s].points.length - 1, i + along))]);
    });
  }
  drawAtEveryWidth(box, draw);
  return ({ at, ...changes } = {}) => {
    current = { ...current, ...changes };
    if (at) cursor = at;
    draw();
    if (cursor && current.describe) current.describe(...cursor);
  };
}

// The names of a chart's lines, each with its colour.
function chartKey(root, entries) {
  const swatch = ({ tone, dashed }) =>
    el("span", { class: dashed ? "key-line dashed" : "key-line", style: { color: `var(--${tone})` } });
  root.append(
    el(
      "div",
      { class: "key" },
      entries.map((entry) => el("span", {}, swatch(entry), entry.name)),
    ),
  );
}
