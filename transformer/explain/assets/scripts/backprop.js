// Chapter 12: backprop.

// A figure of this chapter, or a sentence in its place where there is nothing to learn from.
function lesson(name, uses, build) {
  figure(name, uses, (root) => {
    if (chapterData("backprop").loss !== null) return build(root);
    note(root, "Your text is a single token: there is no next one to learn from. Give a longer text.");
    return null;
  });
}

const subscript = (n) => [...String(n)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]).join("");

lesson("backprop-neuron", [], (root) => {
  const { graph, layer, position, unit, inputs, whole } = chapterData("backprop").neuron;
  const { card, gradient } = graph.steps[0];
  const g = singleNumber(gradient);
  const effect = `${g < 0 ? "fall" : "rise"} by ${number(Math.abs(g))} times as much`;
  walk(root, {
    graph,
    names: { element: String, byKey: () => false },
    origin: [
      `Hidden unit ${unit} of block ${layer + 1}, at `,
      tokenName(page.data.text.tokens[position]),
      `: its value is ${number(singleNumber(graph.cards[card].value))}. From the rest of the model arrives `,
      strong(`g = ${number(g)}`),
      `: if this value were larger by a little, the loss would ${effect}.`,
    ],
  });
  const shares = inputs.map((input, i) => {
    const name = `w${subscript(input)}`;
    const own = singleNumber(graph.cards.find((one) => one.name === name).gradient);
    return `${name}: ${number(own)} of ${number(whole[i])}`;
  });
  note(
    root,
    "A weight is used at every token of the text, and its whole gradient is the sum of what arrives from all of ",
    `them. From this token alone: ${shares.join("; ")}.`,
  );
});

lesson("backprop-head", [], (root) => {
  const { graph, layer, head, position, keys } = chapterData("backprop").head;
  const { tokens } = page.data.text;
  const g = matrixOf(graph.steps[0].gradient).numbers;
  const seen = `${keys} key${keys > 1 ? "s" : ""}, each of ${page.data.model.d_k} numbers`;
  walk(root, {
    graph,
    names: { element: (i) => tokens[i], byKey: (name) => ["K·q", "scores", "weights"].includes(name) },
    origin: [
      `Head ${head + 1} of block ${layer + 1}. The query is that of `,
      tokenName(tokens[position]),
      ` at position ${position}; it sees ${seen}. From the rest of the model arrives g, `,
      strong(`${g.length} numbers of up to ±${number(largestSize(g), 2)}`),
      ", one for each number of z.",
    ],
  });
  note(
    root,
    "What arrives at q is complete: only this query uses it. To K and V other queries add their share, and from ",
    "there the walk goes on into W_Q, W_K and W_V.",
  );
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
  const { n_layers, tie_weights } = page.data.model;
  const kinds = names.filter((name) => name.startsWith("blocks.0.")).map((name) => name.slice("blocks.0.".length));
  const others = names.filter((name) => !name.startsWith("blocks."));
  const cell = (r, c) => names.indexOf(`blocks.${r}.${kinds[c]}`);
  let now = null;
  const showCells = grid(root, {
    label: "Size of the gradient of each matrix",
    rows: n_layers,
    columns: kinds.length,
    largestCell: 46,
    cellHeight: 30,
    rowLabels: Array.from({ length: n_layers }, (_, i) => `block ${i + 1}`),
    columnLabels: kinds.map((kind) => PARAMETER_NAMES[kind]),
    color: () => "transparent",
    describe: (r, c) => {
      const i = cell(r, c);
      const size = strong(number(now.gradients[i]));
      const name = `${PARAMETER_NAMES[kinds[c]]} of block ${r + 1}`;
      show([`${name}: gradients of size `, size, ` beside numbers of size ${number(now.values[i])}`]);
    },
  });
  const showScale = legend(root);
  const rest = note(root);
  const show = readout(root);
  return () => {
    now = snapshots[page.state.step];
    const scale = logScale(now.gradients.filter((_, i) => names[i].startsWith("blocks.")));
    showCells({ color: (r, c) => scale.color(Math.log10(now.gradients[cell(r, c)])) }, [0, 0]);
    showScale(scale);
    const zero = now.gradients.filter((x) => x === 0).length;
    const count = zero ? `${zero} of ${names.length}` : `All ${names.length}`;
    const table = tie_weights ? "the embedding table, which also gives the logits," : "the embedding table";
    const sizes = others.map((name) => {
      const called = name === "embedding.token.weight" ? table : name;
      return `${called} ${number(now.gradients[names.indexOf(name)])}`;
    });
    rest.textContent =
      `${count} matrices and vectors have a gradient ${zero ? "of 0" : "that is not 0"}. ` +
      `Outside the blocks: ${sizes.join("; ")}.`;
  };
});

// A scale of the logarithms of sizes; a size of 0 is paper.
function logScale(sizes) {
  const logs = sizes.filter((x) => x > 0).map(Math.log10);
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  return {
    ...{ low, high, unit: "root mean square, in nats per unit (the scale is logarithmic)" },
    text: (x) => number(10 ** x, 2),
    color: (x) => {
      const stops = [palette.paper, mix(palette.paper, palette.ink, 0.5), palette.ink];
      return along(stops, x === -Infinity ? 0 : 0.06 + (0.94 * (x - low)) / (high - low || 1));
    },
  };
}

lesson("backprop-residuals", [], (root) => {
  const { residuals } = chapterData("backprop");
  const [, , { layers, width }] = residuals; // of the untrained stacks
  let stack = residuals[1];
  choice(controls(root), {
    label: "Stack",
    options: ["your model", `${layers} untrained blocks without LayerNorm`, `${layers} untrained blocks with it`],
    value: 1,
    change: (i) => {
      stack = residuals[i];
      draw();
    },
  });
  const series = [
    { kind: "with", name: "with residual connections", tone: "accent" },
    { kind: "without", name: "without", tone: "ink", dashed: true },
  ];
  chartKey(root, series);
  const showChart = chart(root, {
    label: "Size of the gradient that arrives at each block",
    xLow: 0,
    xLabel: "into block … (the walk goes from right to left)",
    yLabel: "length of the gradient",
    yFormat: (y) => (Number.isInteger(y) ? `10${superscript(y)}` : number(10 ** y, 2)),
    series: [],
    describe: (s, i) => {
      const sizes = stack[series[s].kind];
      const where = i === stack.layers ? "at the end of the stack" : `into block ${i + 1}`;
      show([
        `${s ? "Without" : "With"} residual connections, ${where}: `,
        strong(number(sizes[i])),
        `, ${number(sizes[i] / sizes.at(-1))} times what starts at the end`,
      ]);
    },
  });
  const said = note(root);
  const show = readout(root);
  function draw() {
    const end = stack.layers;
    showChart({
      series: series.map((one) => ({
        ...one,
        marks: true,
        points: stack[one.kind].map((size, i) => [i, Math.log10(size)]),
      })),
      xHigh: end,
      xTicks: Array.from({ length: end + 1 }, (_, i) => i),
      xFormat: (i) => (i === end ? "end" : String(i + 1)),
      at: [1, 0],
    });
    const share = (kind) => strong(number(stack[kind][0] / stack[kind].at(-1)));
    const from = stack.trained ? `your ${end} blocks` : `these ${end} blocks, of width ${width}`;
    said.replaceChildren(
      `From the end of ${from} to the input of the first, the gradient’s length is multiplied by `,
      ...[share("with"), " with residual connections and by ", share("without"), " without."],
      stack.trained
        ? " Your model was trained with them, so its twin without them is a stranger to its weights; nor is it deep."
        : "",
    );
  }
  draw();
});

// --- a step -------------------------------------------------------------------------------------------------

lesson("backprop-step", [], (root) => {
  const { descent } = chapterData("backprop");
  const { tokens } = page.data.text;
  let paths = descent.all;
  let size = 0; // which of the step sizes
  let taken = 0; // how many steps
  const bar = controls(root);
  choice(bar, {
    label: "Learn from",
    options: ["all tokens", "the last token"],
    change: (i) => {
      paths = [descent.all, descent.last][i];
      start();
    },
  });
  const sizes = el("div");
  bar.append(sizes);
  const press = controls(root);
  const step = button(press, "", () => walkTo(taken + 1));
  step.classList.add("primary");
  const again = button(press, "Start again", () => walkTo(0));
  const showTable = stepTable(root);
  const said = note(root);
  const chances = (state) => state.losses.map((loss) => Math.exp(-loss));
  const showBars = columnBars(root, {
    label: "Probability of each right token",
    rowHeight: 54,
    describe: (i) => {
      const { states } = paths[size];
      const now = strong(percent(chances(states[taken])[i]));
      const before = taken ? `went from ${percent(chances(states[taken - 1])[i])} to ` : "is ";
      show([
        "After ",
        tokenName(tokens[i]),
        " comes ",
        tokenName(tokens[i + 1]),
        `: its probability ${before}`,
        now,
      ]);
    },
  });
  const show = readout(root);

  // Offer the step sizes of what is learned from, and go to where nothing is learned yet.
  function start() {
    sizes.replaceChildren();
    choice(sizes, {
      label: "Step size",
      options: paths.map((path) => String(path.step_size)),
      value: size,
      change: (i) => {
        size = i;
        walkTo(0);
      },
    });
    walkTo(0);
  }

  function walkTo(k) {
    taken = k;
    const { states, step_size } = paths[size];
    const now = states[taken];
    const old = taken ? states[taken - 1] : null;
    step.disabled = taken >= states.length - 1;
    step.textContent = taken ? "Take another step" : "Take a step down";
    again.disabled = taken === 0;
    showTable(now, old, old && -step_size * old.slope ** 2);
    said.textContent = outcome(now, old);
    const row = (label, state, tone) => ({ label, values: chances(state), most: 1, tone, format: percent });
    const rows = old ? [row("before", old, "muted"), row("after", now, "accent")] : [row("now", now, "muted")];
    showBars({ rows, labels: tokens.slice(1), at: tokens.length - 2 });
  }

  function outcome(now, old) {
    if (!old) {
      const length = number(now.slope);
      return `The gradient has the length ${length}. The promised change of the loss is −step size · length².`;
    }
    const likelier = now.losses.filter((loss, i) => loss < old.losses[i]).length;
    const count = `${likelier} of ${now.losses.length} right tokens became likelier.`;
    if (now.loss < old.loss) return `The loss fell: ${count}`;
    return `The loss rose: the step was so large that it left the ground on which the gradient was measured. ${count}`;
  }

  start();
});

// What a step changes, beside what the gradient promised.  Returns update(now, old, promised); old is null before
// the first step.
function stepTable(root) {
  const head = ["", "loss (nats)", "probability of the right token"].map((name) => el("th", {}, name));
  const body = el("tbody");
  root.append(el("table", { class: "step-table" }, el("thead", {}, el("tr", {}, head)), body));
  const typical = (state) => Math.exp(-state.loss);
  return (now, old, promised) => {
    const first = old || now;
    const rows = [["before", number(first.loss, 4), percent(typical(first))]];
    if (old) {
      rows.push(["after", strong(number(now.loss, 4)), strong(percent(typical(now)))]);
      rows.push(["change", number(now.loss - old.loss), `× ${number(typical(now) / typical(old))}`]);
      rows.push(["promised change", number(promised), `× ${number(Math.exp(-promised))}`]);
    } else {
      rows.push(["after", "", ""], ["change", "", ""], ["promised change", "", ""]);
    }
    body.replaceChildren(
      ...rows.map((cells) =>
        el(
          "tr",
          {},
          cells.map((text) => el("td", {}, text)),
        ),
      ),
    );
  };
}
