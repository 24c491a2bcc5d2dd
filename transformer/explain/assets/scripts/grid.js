// A matrix of cells on a canvas: attention patterns, heat maps, and strips of a vector's numbers.
//
// The pointer, a finger or the arrow keys move a cursor over the cells; `describe(row, column)` then fills the
// figure's readout, so that every cell can give its formula.

const painted = new Set(); // all that is drawn in colours of the palette: {canvas, draw}

// grid(root, {label, rows, columns, color(row, column), hidden(row, column), rowLabels, rowTones, columnLabels,
//             chosen: {row, column}, largestCell, smallestCell, cellHeight, rowGap, describe(row, column),
//             pick(row, column)})
//
// Hidden cells are hatched.  Sizes are in pixels.  Returns update(changes, at), where `at` = [row, column] is a
// place for the cursor, unless the reader's keyboard has it.
function grid(root, options) {
  const { rows, columns, label } = options;
  const canvas = el("canvas", {
    class: "grid-canvas",
    tabindex: 0,
    role: "application",
    "aria-roledescription": "grid of numbers",
    "aria-label": `${label}. Move with the arrow keys.`,
  });
  const box = el("div", { class: "grid" }, canvas);
  root.append(box);
  let cursor = null;
  let current = options;
  let layout = null;

  function measure() {
    const { unit } = palette;
    const { rowLabels = [], columnLabels = [], cellHeight, smallestCell = 3, largestCell = 26 } = current;
    const context = canvas.getContext("2d");
    const font = `${12 * unit}px ${palette.mono}`;
    context.font = font;
    const widest = (texts) => Math.max(0, ...texts.map((text) => context.measureText(text).width));
    const labelWidth = rowLabels.length ? Math.min(widest(rowLabels) + 8, 150 * unit) : 0;
    const width = Math.min(largestCell * unit, Math.max(40, box.clientWidth - labelWidth - 1) / columns);
    const height = cellHeight * unit || Math.max(width, smallestCell);
    const rowGap = (current.rowGap || 0) * unit;
    const single = columnLabels.every((text) => [...text].length === 1);
    const upright = single || widest(columnLabels) <= width - 2;
    const named = columnLabels.length > 0 && width >= 6;
    const labelHeight = !named ? 0 : upright ? 18 * unit : Math.min(widest(columnLabels) + 8, 110 * unit);
    // Edges fall on the screen's own pixels.
    const ratio = window.devicePixelRatio || 1;
    return {
      ...{ font, labelWidth, labelHeight, width, height, rowGap, upright, named, ratio },
      left: (c) => labelWidth + Math.round(c * width * ratio) / ratio,
      top: (r) => labelHeight + Math.round(r * (height + rowGap) * ratio) / ratio,
      totalWidth: labelWidth + width * columns + 1,
      totalHeight: labelHeight + (height + rowGap) * rows - rowGap + 1,
    };
  }

  function draw() {
    if (!box.clientWidth) return;
    layout = measure();
    const { totalWidth, totalHeight, ratio } = layout;
    canvas.width = Math.ceil(totalWidth * ratio);
    canvas.height = Math.ceil(totalHeight * ratio);
    canvas.style.width = `${totalWidth}px`;
    canvas.style.height = `${totalHeight}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawCells(context);
    if (current.hidden) hatch(context);
    drawBorders(context);
    context.font = layout.font;
    context.textBaseline = "middle";
    drawRowLabels(context);
    if (layout.named) drawColumnLabels(context);
    outline(context);
  }

  function drawCells(context) {
    const { left, top, width, height, rowGap } = layout;
    const gap = width >= 7 && height >= 7 ? 1 : 0;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const hidden = current.hidden && current.hidden(r, c);
        context.fillStyle = hidden ? rgb(palette.paper) : current.color(r, c);
        const tall = rowGap ? height : top(r + 1) - top(r);
        context.fillRect(left(c), top(r), left(c + 1) - left(c) - gap, tall - gap);
      }
    }
  }

  function hatch(context) {
    const { left, top, totalWidth, totalHeight } = layout;
    context.save();
    context.beginPath();
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        if (current.hidden(r, c)) context.rect(left(c), top(r), left(c + 1) - left(c), top(r + 1) - top(r));
      }
    }
    context.clip();
    context.strokeStyle = rgb(mix(palette.paper, palette.muted, 0.45));
    context.lineWidth = 1;
    context.beginPath();
    for (let x = -totalHeight; x < totalWidth; x += 6) {
      context.moveTo(x, totalHeight);
      context.lineTo(x + totalHeight, 0);
    }
    context.stroke();
    context.restore();
  }

  // A line around all cells, or around each row if there is room between them.
  function drawBorders(context) {
    const { left, top, height, rowGap } = layout;
    context.strokeStyle = rgb(palette.line);
    context.lineWidth = 1;
    const frame = (from, to) =>
      context.strokeRect(left(0) + 0.5, from + 0.5, left(columns) - left(0) - 1, to - from - 1);
    if (!rowGap) frame(top(0), top(rows));
    else for (let r = 0; r < rows; r++) frame(top(r), top(r) + height);
  }

  function drawRowLabels(context) {
    const { labelWidth, height, top } = layout;
    const { rowLabels = [], rowTones = [], chosen = {} } = current;
    const letter = 11 * palette.unit;
    const every = [1, 2, 5, 10, 20, 50].find((n) => n * height >= letter - 1); // as many as can be read
    context.textAlign = "right";
    rowLabels.forEach((text, r) => {
      if (r % every !== 0) return;
      context.fillStyle = labelColor(rowTones[r], chosen.row === r);
      context.fillText(text, labelWidth - 5, Math.max(top(r) + height / 2, letter / 2), labelWidth - 6);
    });
  }

  function drawColumnLabels(context) {
    const { left, width, labelHeight, upright } = layout;
    const { columnLabels, chosen = {} } = current;
    if (upright) context.font = layout.font.replace(/^[\d.]+/, (size) => Math.min(size, width * 1.5));
    context.textAlign = upright ? "center" : "left";
    columnLabels.forEach((text, c) => {
      context.fillStyle = labelColor(null, chosen.column === c);
      context.save();
      context.translate(left(c) + width / 2, labelHeight - (upright ? 10 : 5));
      if (!upright) context.rotate(-Math.PI / 2);
      context.fillText(text, 0, 0);
      context.restore();
    });
  }

  function labelColor(tone, chosen) {
    return rgb(palette[tone || (chosen ? "ink" : "muted")]);
  }

  function outline(context) {
    const { left, top, rowGap } = layout;
    const { row = -1, column = -1 } = current.chosen || {};
    const frame = (r0, r1, c0, c1, color, thickness) => {
      context.strokeStyle = rgb(color);
      context.lineWidth = thickness;
      context.strokeRect(left(c0) - 0.5, top(r0) - 0.5, left(c1) - left(c0), top(r1) - rowGap - top(r0));
    };
    if (row >= 0) frame(row, row + 1, 0, columns, palette.accent, 1.5);
    if (column >= 0) frame(0, rows, column, column + 1, palette.accent, 1.5);
    if (cursor) frame(cursor[0], cursor[0] + 1, cursor[1], cursor[1] + 1, palette.ink, 2);
  }

  function move(row, column, pick = false) {
    cursor = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    draw();
    if (current.describe) current.describe(...cursor);
    if (pick && current.pick) current.pick(...cursor);
  }

  function cellAt(event) {
    if (!layout) return null;
    const frame = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - frame.left - layout.labelWidth) / layout.width);
    const row = Math.floor((event.clientY - frame.top - layout.labelHeight) / (layout.height + layout.rowGap));
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (cell && (!cursor || cell[0] !== cursor[0] || cell[1] !== cursor[1])) move(...cell);
  });
  canvas.addEventListener("pointerdown", (event) => {
    const cell = cellAt(event);
    if (cell) move(...cell, true);
  });
  canvas.addEventListener("keydown", (event) => {
    const [r, c] = cursor || [0, 0];
    const steps = {
      ArrowUp: [r - 1, c],
      ArrowDown: [r + 1, c],
      ArrowLeft: [r, c - 1],
      ArrowRight: [r, c + 1],
      Home: [r, 0],
      End: [r, columns - 1],
      Enter: [r, c],
      " ": [r, c],
    };
    if (!steps[event.key]) return;
    event.preventDefault();
    move(...steps[event.key], event.key === "Enter" || event.key === " ");
  });
  canvas.addEventListener("focus", () => {
    if (!cursor) move(0, 0);
  });

  painted.add({ canvas, draw });
  drawAtEveryWidth(box, draw);
  return (changes = {}, at = null) => {
    current = { ...current, ...changes };
    if (at && document.activeElement !== canvas) cursor = at;
    draw();
    if (cursor && current.describe) current.describe(...cursor);
  };
}

// Vectors one above the other, a cell for each number.  Returns update(content, at): content is a list of {label,
// values, tone, scale}, and all that bring no scale share one, which is returned.
function strips(root, { label, width, lines, cellHeight = 18, describe }) {
  const update = grid(root, {
    ...{ label, rows: lines, columns: width, cellHeight, rowGap: 5, largestCell: 22, describe },
    rowLabels: Array.from({ length: lines }, () => ""),
    color: () => "transparent",
  });
  return (content, at) => {
    const shared = signedScale(largestSize(...content.map((strip) => strip.values)));
    update(
      {
        rowLabels: content.map((strip) => strip.label),
        rowTones: content.map((strip) => strip.tone),
        color: (r, c) => (content[r].scale || shared).color(content[r].values[c]),
      },
      at,
    );
    return shared;
  };
}

function redrawAll() {
  readPalette();
  for (const one of painted) {
    if (one.canvas.isConnected) one.draw();
    else painted.delete(one);
  }
}
