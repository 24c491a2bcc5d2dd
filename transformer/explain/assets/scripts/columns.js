// Upright bars above each token.

const AXIS = 64; // how far from the left the bars begin
const LABEL_LETTER = 7.2; // the width of a letter of a token, in pixels

// Rows of bars, [{label, values, tone, signed, most, format}], one column for each token.
// Returns update({rows, labels, chosen, at}), where `at` is a column for the cursor.
function columnBars(root, { label, describe, rowHeight = 64 }) {
  const box = el("div", { class: "chart" });
  root.append(box);
  let current = null;
  let cursor = null;
  let step = 0; // the width of a column

  function draw() {
    if (!current || !box.clientWidth) return;
    const { rows, labels, chosen } = current;
    const { unit } = palette;
    const width = box.clientWidth;
    step = Math.min(34 * unit, (width - AXIS * unit) / labels.length);
    const longest = Math.max(...labels.map((text) => [...text].length));
    const upright = longest === 1 || longest * LABEL_LETTER * unit < step;
    const labelHeight = upright ? 24 * unit : Math.min(96, 12 + LABEL_LETTER * longest) * unit;
    const each = (rowHeight + 14) * unit;
    const height = rows.length * each + labelHeight;
    const middle = (i) => AXIS * unit + (i + 0.5) * step;
    const drawing = svg("svg", {
      ...{ viewBox: `0 0 ${width} ${height}`, width, height },
      ...{ role: "application", "aria-label": `${label}. Move with the arrow keys.`, tabindex: 0 },
    });
    if (cursor !== null) {
      const x = middle(cursor) - step / 2;
      drawing.append(svg("rect", { class: "column-cursor", x, y: 0, width: step, height: height - 2 }));
    }
    rows.forEach((row, r) => drawing.append(...columnRow(row, r * each + 8, rowHeight * unit, middle, step)));
    labels.forEach((text, i) => {
      const kind = `chart-name ${chosen === i ? "strong" : ""}`;
      const below = height - labelHeight + 8;
      drawing.append(
        upright
          ? svgText(kind, middle(i), height - 6, text)
          : sidewaysText(kind, middle(i) + 4, below, text, "end"),
      );
    });
    replaceDrawing(box, drawing);
  }

  function move(i) {
    if (i === cursor) return;
    cursor = Math.max(0, Math.min(current.labels.length - 1, i));
    draw();
    describe(cursor);
  }

  function point(event) {
    const x = event.clientX - box.getBoundingClientRect().left - AXIS * palette.unit;
    const i = Math.floor(x / step);
    if (i >= 0 && i < current.labels.length) move(i);
  }

  box.addEventListener("pointermove", point);
  box.addEventListener("pointerdown", point);
  box.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    move((cursor ?? 0) + by);
  });
  drawAtEveryWidth(box, draw);
  return ({ at, ...changes }) => {
    current = { ...current, ...changes };
    if (at !== undefined) cursor = at;
    draw();
    if (cursor !== null) describe(cursor);
  };
}

// One row of bars with its name, its axis and the ends of its scale.
function columnRow({ label, values, tone = "ink", signed, most, format }, top, height, middle, step) {
  const text = format || ((x) => number(x, 2));
  const finite = values.filter(Number.isFinite);
  const high = signed ? Math.max(0, ...finite) : most || largestSize(values) || 1;
  const low = signed ? Math.min(0, ...finite) : 0;
  const y = (value) => top + height - ((value - low) / (high - low || 1)) * height;
  const left = AXIS * palette.unit;
  const drawn = [
    svgText("chart-label", 0, top + height / 2 + 4, label, "start"),
    svgLine("chart-axis", left, y(0), middle(values.length - 1) + step / 2, y(0)),
  ];
  for (const end of new Set([low, high])) {
    if (end !== 0) drawn.push(svgText("chart-tick", left - 5, y(end) + (end > 0 ? 7 : 2), text(end), "end"));
  }
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) {
      drawn.push(svgText("chart-tick", middle(i), y(0) - 3, step > 15 ? "−∞" : "·"));
      return;
    }
    const colour = signed ? (value < 0 ? "negative-far" : "positive-far") : tone;
    drawn.push(
      svg("rect", {
        ...{ x: middle(i) - 0.38 * step, width: 0.76 * step },
        ...{ y: Math.min(y(value), y(0)), height: Math.max(0.75, Math.abs(y(value) - y(0))) },
        style: `fill: var(--${colour})`,
      }),
    );
  });
  return drawn;
}
