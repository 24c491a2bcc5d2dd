// A matrix of cells on a canvas: attention patterns, heat maps, and strips of a vector's numbers.
//
// The pointer, a finger or the arrow keys move a cursor over the cells; `describe(row, column)` then fills the
// figure's readout, so that every cell can give its formula.

const grids = new Set();

function grid(root, options) {
  const { rows, columns, label } = options;
  const canvas = el("canvas", {
    class: "grid-canvas",
    tabindex: 0,
    role: "application",
    "aria-roledescription": "grid of numbers",
    "aria-label": `${label}. Move with the arrow keys.`,
  });
  const box = el("div", { class: `grid ${options.class || ""}` }, canvas);
  root.append(box);
  let cursor = options.cursor || null;
  let current = options;
  let layout = null;
  let drawnWidth = 0;

  function measure() {
    const context = canvas.getContext("2d");
    const { unit } = palette;
    const small = `${12 * unit}px ${palette.mono}`;
    context.font = small;
    const wide = (list) => Math.max(0, ...(list || []).map((text) => context.measureText(text).width));
    const labelWidth = current.rowLabels ? Math.min(wide(current.rowLabels) + 8, 150 * unit) : 0;
    const available = Math.max(40, box.clientWidth - labelWidth - 1);
    const most = (current.largestCell || 26) * unit;
    const width = Math.min(most, available / columns);
    const height = current.cellHeight * unit || Math.max(width, current.smallestCell || 3);
    const single = (current.columnLabels || []).every((text) => [...text].length === 1);
    const upright = current.columnLabels && (single || wide(current.columnLabels) <= width - 2);
    const shown = current.columnLabels && width >= 6;
    const labelHeight = !shown ? 0 : upright ? 18 * unit : Math.min(wide(current.columnLabels) + 8, 110 * unit);
    const rowGap = (current.rowGap || 0) * unit;
    return {
      small,
      labelWidth,
      labelHeight,
      width,
      height,
      rowGap,
      upright,
      shown,
      totalWidth: labelWidth + width * columns + 1,
      totalHeight: labelHeight + (height + rowGap) * rows - rowGap + 1,
    };
  }

  function draw() {
    if (!box.clientWidth) return;
    drawnWidth = box.clientWidth;
    layout = measure();
    const { labelWidth, labelHeight, width, height, rowGap, upright, shown, totalWidth, totalHeight } = layout;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.ceil(totalWidth * ratio);
    canvas.height = Math.ceil(totalHeight * ratio);
    canvas.style.width = `${totalWidth}px`;
    canvas.style.height = `${totalHeight}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, totalWidth, totalHeight);
    const left = (c) => labelWidth + Math.round(c * width * ratio) / ratio;
    const top = (r) => labelHeight + Math.round(r * (height + rowGap) * ratio) / ratio;
    const gap = width >= 7 && height >= 7 ? 1 : 0;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const hidden = current.hidden && current.hidden(r, c);
        context.fillStyle = hidden ? rgb(palette.paper) : current.color(r, c);
        context.fillRect(
          left(c),
          top(r),
          left(c + 1) - left(c) - gap,
          (rowGap ? height : top(r + 1) - top(r)) - gap,
        );
      }
    }
    if (current.hidden) hatch(context, left, top);
    context.strokeStyle = rgb(palette.line);
    context.lineWidth = 1;
    for (const [from, to] of rowGap
      ? Array.from({ length: rows }, (_, r) => [top(r), top(r) + height])
      : [[labelHeight, top(rows)]]) {
      context.strokeRect(labelWidth + 0.5, from + 0.5, left(columns) - labelWidth - 1, to - from - 1);
    }
    context.font = layout.small;
    context.textBaseline = "middle";
    const chosen = current.chosen || {};
    (current.rowLabels || []).forEach((text, r) => {
      if (height < 10 * palette.unit && r % Math.ceil((11 * palette.unit) / height) !== 0) return;
      context.fillStyle = labelColor(current.rowTones && current.rowTones[r], chosen.row === r);
      context.textAlign = "right";
      context.fillText(text, labelWidth - 5, top(r) + height / 2, labelWidth - 6);
    });
    if (shown) {
      current.columnLabels.forEach((text, c) => {
        context.fillStyle = labelColor(null, chosen.column === c);
        context.save();
        context.translate(left(c) + width / 2, labelHeight - 5);
        if (upright) {
          context.font = layout.small.replace(/^[\d.]+/, (size) => Math.min(size, width * 1.5));
          context.textAlign = "center";
          context.fillText(text, 0, -5);
        } else {
          context.rotate(-Math.PI / 2);
          context.textAlign = "left";
          context.fillText(text, 0, 0);
        }
        context.restore();
      });
    }
    outline(context, left, top);
  }

  function labelColor(tone, chosen) {
    return rgb(tone ? palette[tone] : chosen ? palette.ink : palette.muted);
  }

  function hatch(context, left, top) {
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
    for (let x = -layout.totalHeight; x < layout.totalWidth; x += 6) {
      context.moveTo(x, layout.totalHeight);
      context.lineTo(x + layout.totalHeight, 0);
    }
    context.stroke();
    context.restore();
  }

  function outline(context, left, top) {
    const { rowGap } = layout;
    const { row, column } = current.chosen || {};
    const frame = (r0, r1, c0, c1, color, thickness) => {
      context.strokeStyle = color;
      context.lineWidth = thickness;
      context.strokeRect(left(c0) - 0.5, top(r0) - 0.5, left(c1) - left(c0), top(r1) - rowGap - top(r0));
    };
    if (row !== undefined && row >= 0) frame(row, row + 1, 0, columns, rgb(palette.accent), 1.5);
    if (column !== undefined && column >= 0) frame(0, rows, column, column + 1, rgb(palette.accent), 1.5);
    if (cursor) frame(cursor[0], cursor[0] + 1, cursor[1], cursor[1] + 1, rgb(palette.ink), 2);
  }

  function move(row, column, pick = false) {
    cursor = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    draw();
    if (current.describe) current.describe(...cursor);
    if (pick && current.pick) current.pick(...cursor);
  }

  function cellAt(event) {
    const frame = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - frame.left - layout.labelWidth) / layout.width);
    const row = Math.floor((event.clientY - frame.top - layout.labelHeight) / (layout.height + layout.rowGap));
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const cell = layout && cellAt(event);
    if (cell && (!cursor || cell[0] !== cursor[0] || cell[1] !== cursor[1])) move(...cell);
  });
  canvas.addEventListener("pointerdown", (event) => {
    const cell = layout && cellAt(event);
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

  const self = {
    canvas,
    draw,
    // Take new options (colours, labels, what is chosen) and, if given, put the cursor somewhere.
    update(changes = {}, at = undefined) {
      current = { ...current, ...changes };
      if (at !== undefined) cursor = at;
      draw();
      if (cursor && current.describe) current.describe(...cursor);
    },
  };
  grids.add(self);
  new ResizeObserver(() => {
    if (box.clientWidth !== drawnWidth) draw();
  }).observe(box);
  return self;
}

// Vectors one above the other, a cell for each number.  Lines: [{label, values, tone}].  One scale for all, unless a
// line brings its own.
function strips(root, { label, width, lines, cellHeight = 18, describe = null, pick = null, scale = null }) {
  const view = grid(root, {
    label,
    rows: lines,
    columns: width,
    cellHeight,
    rowGap: 5,
    largestCell: 22,
    describe,
    pick,
    class: "strips",
    rowLabels: Array.from({ length: lines }, () => ""),
    color: () => "transparent",
  });
  return {
    ...view,
    update(content, at) {
      const shared = scale || signedScale(largestSize(...content.map((line) => line.values)));
      view.update(
        {
          rowLabels: content.map((line) => line.label),
          rowTones: content.map((line) => line.tone),
          color: (r, c) => (content[r].scale || shared).color(content[r].values[c]),
        },
        at,
      );
      return shared;
    },
  };
}

function redrawAll() {
  readPalette();
  for (const view of grids) {
    if (view.canvas.isConnected) view.draw();
    else grids.delete(view);
  }
}
