// Curves and points over two axes, as SVG.

// Round steps for an axis from `low` to `high`.
function ticks(low, high, count = 5) {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-6; x += step)
    found.push(Math.abs(x) < step * 1e-6 ? 0 : x);
  return found;
}

// Places for labels in a column, from above to below: near where they belong, but at least `gap` apart, none below `lowest`.
function apart(wanted, gap, lowest) {
  const places = [...wanted];
  for (let i = 1; i < places.length; i++) places[i] = Math.max(places[i], places[i - 1] + gap);
  for (let i = places.length - 1; i >= 0; i--)
    places[i] = Math.min(places[i], i + 1 < places.length ? places[i + 1] - gap : lowest);
  return places;
}

// A tick's number without trailing zeros.
function tickText(x) {
  return Math.abs(x) >= 1000 ? integer(x) : String(Number(x.toPrecision(6))).replace("-", "−");
}

// chart(root, {label, xLabel, yLabel, series: [{name, tone, points: [[x, y], …], dashed, dots}], levels: [{name, y}],
//              verticals: [{name, x}], xLow, xHigh, yLow, yHigh, height, xTicks, xFormat, yFormat,
//              describe(series, i), pick(series, i)})
// Returns update(changes).  Arrow keys walk along the points of the first series.
function chart(root, options) {
  const box = el("div", { class: "chart" });
  root.append(box);
  let current = options;
  let place = null;
  let drawnWidth = 0;

  function draw() {
    drawnWidth = box.clientWidth;
    const width = Math.max(260, box.clientWidth);
    const { unit } = palette;
    const height = current.height * unit || Math.min(320, Math.max(200, width * 0.45));
    const { series, levels = [], verticals = [], square = false } = current;
    const points = series.flatMap((line) => line.points);
    const inside = (list) => list.filter(Number.isFinite);
    const range = (low, high, values) => {
      const all = inside(values);
      const from = low ?? Math.min(...all);
      const to = high ?? Math.max(...all);
      return from === to ? [from - 1, to + 1] : [from, to];
    };
    const [xLow, xHigh] = range(
      current.xLow,
      current.xHigh,
      points.map((p) => p[0]),
    );
    const [yLow, yHigh] = range(current.yLow, current.yHigh, [
      ...points.map((p) => p[1]),
      ...levels.map((level) => level.y),
    ]);
    const left = (current.yLabel ? 58 : 46) * unit;
    const right = (levels.length ? 86 : 12) * unit;
    const top = 10 * unit;
    const bottom = 40 * unit;
    const x = (value) => left + ((value - xLow) / (xHigh - xLow)) * (width - left - right);
    const y = (value) => height - bottom - ((value - yLow) / (yHigh - yLow)) * (height - top - bottom);
    const drawing = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: current.describe ? "application" : "img",
      "aria-label": current.describe ? `${current.label}. Move with the arrow keys.` : current.label,
      tabindex: current.describe ? 0 : null,
    });
    if (!square) {
      for (const tick of ticks(yLow, yHigh)) {
        drawing.append(
          svg("line", { class: "chart-grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
          svg(
            "text",
            { class: "chart-tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end" },
            (current.yFormat || tickText)(tick),
          ),
        );
      }
      for (const tick of current.xTicks || ticks(xLow, xHigh, width < 480 ? 4 : 7)) {
        drawing.append(
          svg(
            "text",
            {
              class: "chart-tick",
              x: x(tick),
              y: height - bottom + 16 * unit,
              "text-anchor": current.xFormat && x(tick) > width - right - 12 && !current.tight ? "end" : "middle",
            },
            current.xFormat ? current.xFormat(tick) : tickText(tick),
          ),
        );
      }
      drawing.append(
        svg("line", {
          class: "chart-axis",
          x1: left,
          x2: width - right,
          y1: height - bottom,
          y2: height - bottom,
        }),
      );
    }
    drawing.append(
      svg(
        "text",
        { class: "chart-label", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" },
        current.xLabel || "",
      ),
    );
    if (current.yLabel)
      drawing.append(
        svg(
          "text",
          {
            class: "chart-label",
            transform: `translate(${11 * unit} ${(top + height - bottom) / 2}) rotate(-90)`,
            "text-anchor": "middle",
          },
          current.yLabel,
        ),
      );
    const sorted = [...levels].sort((a, b) => b.y - a.y);
    const places = apart(
      sorted.map((level) => y(level.y) + 4),
      13 * unit,
      height - bottom + 2,
    );
    for (const [i, level] of sorted.entries()) {
      const at = places[i];
      drawing.append(
        svg("line", { class: "chart-level", x1: left, x2: width - right, y1: y(level.y), y2: y(level.y) }),
        svg("text", { class: "chart-tick", x: width - right + 5, y: at }, level.name),
      );
    }
    for (const mark of verticals) {
      if (!Number.isFinite(mark.x)) continue;
      const nearRight = x(mark.x) > (left + width - right) / 2;
      drawing.append(
        svg("line", {
          class: `chart-vertical ${mark.tone || ""}`,
          x1: x(mark.x),
          x2: x(mark.x),
          y1: top,
          y2: height - bottom,
        }),
        svg(
          "text",
          {
            class: "chart-tick",
            x: x(mark.x) + (nearRight ? -5 : 5),
            y: top + 10,
            "text-anchor": nearRight ? "end" : "start",
          },
          mark.name || "",
        ),
      );
    }
    series.forEach((line, s) => {
      const visible = line.points.filter((p) => Number.isFinite(p[1]));
      if (!line.dots && !line.names) {
        const path = visible.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(2)} ${y(p[1]).toFixed(2)}`).join("");
        drawing.append(
          svg("path", {
            class: `chart-line ${line.dashed ? "dashed" : ""}`,
            d: path,
            style: `stroke: var(--${line.tone || "ink"})`,
          }),
        );
      }
      if (line.dots || line.marks || line.names) {
        line.points.forEach((p, i) => {
          if (!Number.isFinite(p[1])) return;
          const name = line.labels && line.labels[i];
          if (!line.names || !name)
            drawing.append(
              svg("circle", {
                class: "chart-dot",
                cx: x(p[0]),
                cy: y(p[1]),
                r: line.radius || 3,
                style: `fill: var(--${line.tone || "ink"})`,
              }),
            );
          if (name)
            drawing.append(
              svg(
                "text",
                {
                  class: `chart-name ${line.className ? line.className(i) : ""}`,
                  x: x(p[0]),
                  y: y(p[1]) + (line.names ? 4 : -5),
                  "text-anchor": "middle",
                },
                name,
              ),
            );
        });
      }
      if (place && place[0] === s && line.points[place[1]]) {
        const p = line.points[place[1]];
        drawing.append(svg("circle", { class: "chart-cursor", cx: x(p[0]), cy: y(p[1]), r: 6 }));
      }
    });
    const nearest = (event) => {
      const frame = drawing.getBoundingClientRect();
      const px = event.clientX - frame.left;
      const py = event.clientY - frame.top;
      let best = null;
      let least = Infinity;
      series.forEach((line, s) =>
        line.points.forEach((p, i) => {
          const far = Math.hypot(x(p[0]) - px, (current.square || line.dots ? 1 : 0.15) * (y(p[1]) - py));
          if (far < least) [least, best] = [far, [s, i]];
        }),
      );
      return best;
    };
    const go = (next, pick) => {
      if (!next || (place && place[0] === next[0] && place[1] === next[1] && !pick)) return;
      place = next;
      const focused = document.activeElement === drawing;
      draw();
      if (focused) box.firstChild.focus({ preventScroll: true });
      if (current.describe) current.describe(...place);
      if (pick && current.pick) current.pick(...place);
    };
    if (current.describe) {
      drawing.addEventListener("pointermove", (event) => go(nearest(event)));
      drawing.addEventListener("pointerdown", (event) => go(nearest(event), true));
      drawing.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const over = { ArrowUp: -1, ArrowDown: 1 }[event.key];
        if (!by && !over) return;
        event.preventDefault();
        const [s, i] = place || [0, -1];
        const line = over ? (s + over + series.length) % series.length : s;
        go([line, Math.max(0, Math.min(series[line].points.length - 1, i + (by || 0)))]);
      });
    }
    box.replaceChildren(drawing);
  }
  new ResizeObserver(() => {
    if (box.clientWidth !== drawnWidth) draw();
  }).observe(box);
  return (changes = {}) => {
    const { at, ...others } = changes;
    current = { ...current, ...others };
    if (at) place = at;
    draw();
    if (place && current.describe) current.describe(...place);
  };
}

// The names of a chart's lines, each with its colour.
function key(root, entries) {
  root.append(
    el(
      "div",
      { class: "key" },
      entries.map(({ name, tone, dashed }) =>
        el(
          "span",
          {},
          el("span", { class: dashed ? "key-line dashed" : "key-line", style: { color: `var(--${tone})` } }),
          name,
        ),
      ),
    ),
  );
}

// Upright bars above each token: rows of [{label, values, tone, signed, most, format}], one column for each token.
// Returns update({rows, labels, chosen, at}).
function columns(root, { label, describe = null, pick = null, rowHeight = 64 }) {
  const box = el("div", { class: "chart" });
  root.append(box);
  let current = null;
  let cursor = null;
  let drawnWidth = 0;

  function draw() {
    if (!current || !box.clientWidth) return;
    drawnWidth = box.clientWidth;
    const { rows, labels, chosen } = current;
    const n = labels.length;
    const { unit } = palette;
    const tall = rowHeight * unit;
    const left = 64 * unit;
    const width = box.clientWidth;
    const step = Math.min(34 * unit, (width - left) / n);
    const gap = 14 * unit;
    const longest = Math.max(...labels.map((text) => [...text].length));
    const upright = longest === 1 || longest * 7.2 * unit < step;
    const bottom = upright ? 24 * unit : Math.min(96, 12 + 7.2 * longest) * unit;
    const height = rows.length * (tall + gap) + bottom;
    const drawing = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "application",
      "aria-label": `${label}. Move with the arrow keys.`,
      tabindex: 0,
    });
    if (cursor !== null)
      drawing.append(
        svg("rect", { class: "column-cursor", x: left + cursor * step, y: 0, width: step, height: height - 2 }),
      );
    rows.forEach((row, r) => {
      const top = r * (tall + gap) + 8;
      const most = row.most || largestSize(row.values) || 1;
      const low = row.signed ? Math.min(0, ...row.values.filter(Number.isFinite)) : 0;
      const high = row.signed ? Math.max(0, ...row.values.filter(Number.isFinite)) : most;
      const y = (value) => top + tall - ((value - low) / (high - low || 1)) * tall;
      drawing.append(
        svg("text", { class: "chart-label", x: 0, y: top + tall / 2 + 4 }, row.label),
        svg("line", { class: "chart-axis", x1: left, x2: left + step * n, y1: y(0), y2: y(0) }),
      );
      row.values.forEach((value, i) => {
        if (!Number.isFinite(value)) {
          drawing.append(
            svg(
              "text",
              { class: "chart-tick", x: left + (i + 0.5) * step, y: y(0) - 3, "text-anchor": "middle" },
              step > 15 ? "−∞" : "·",
            ),
          );
          return;
        }
        const tone = row.signed ? (value < 0 ? "negative-far" : "positive-far") : row.tone || "ink";
        drawing.append(
          svg("rect", {
            x: left + i * step + step * 0.12,
            width: step * 0.76,
            y: Math.min(y(value), y(0)),
            height: Math.max(0.75, Math.abs(y(value) - y(0))),
            style: `fill: var(--${tone})`,
          }),
        );
      });
    });
    labels.forEach((text, i) => {
      const x = left + (i + 0.5) * step;
      const y = height - bottom + 8;
      drawing.append(
        svg(
          "text",
          {
            class: `chart-name ${chosen === i ? "strong" : ""}`,
            "text-anchor": upright ? "middle" : "end",
            transform: upright ? `translate(${x} ${height - 6})` : `translate(${x + 4} ${y}) rotate(-90)`,
          },
          text,
        ),
      );
    });
    const go = (i, picked) => {
      if (i === cursor && !picked) return;
      cursor = Math.max(0, Math.min(n - 1, i));
      const focused = document.activeElement === box.firstChild;
      draw();
      if (focused) box.firstChild.focus({ preventScroll: true });
      if (describe) describe(cursor);
      if (picked && pick) pick(cursor);
    };
    const at = (event) => Math.floor((event.clientX - drawing.getBoundingClientRect().left - left) / step);
    drawing.addEventListener("pointermove", (event) => {
      const i = at(event);
      if (i >= 0 && i < n) go(i);
    });
    drawing.addEventListener("pointerdown", (event) => {
      const i = at(event);
      if (i >= 0 && i < n) go(i, true);
    });
    drawing.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key !== "Enter" && !by) return;
      event.preventDefault();
      go((cursor ?? 0) + (by || 0), event.key === "Enter");
    });
    box.replaceChildren(drawing);
  }
  new ResizeObserver(() => {
    if (box.clientWidth !== drawnWidth) draw();
  }).observe(box);
  return (changes) => {
    current = { ...current, ...changes };
    if (changes.at !== undefined) cursor = changes.at;
    draw();
    if (cursor !== null && describe) describe(cursor);
  };
}
