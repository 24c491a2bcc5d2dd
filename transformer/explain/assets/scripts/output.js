// Chapter 10: the output.

const MOST_LOGITS = 12; // the highest ones, that are drawn

figure("output-table", ["token"], (root) => {
  const { tied, final: packedFinal } = chapterData("output");
  const { table } = chapterData("embedding");
  if (!tied || !table) {
    const reason = tied ? "The table is too large for this page" : "The output matrix of this model is its own";
    return onlyLogits(root, `${reason}, so only the scores are shown.`);
  }
  const { vocabulary, model } = page.data;
  const { ids, tokens } = page.data.text;
  const width = model.d_model;
  const rows = unpackOnce(table);
  const final = unpackOnce(packedFinal);
  let shown = []; // the tokens with the highest logits
  let logits = [];
  let h = [];
  chooseToken(root);
  root.append(el("p", { class: "flow-arrow" }, "in ↓ ", el("small", {}, "the token picks its row")));
  const showEntry = strips(root, {
    label: "The row of the token",
    width,
    lines: 1,
    cellHeight: 22,
    describe: (r, c) => {
      const id = ids[page.state.token];
      show([`E[${id}, ${c}] = `, strong(number(rows.at(id, c)))]);
    },
  });
  const between = `… × √${width}, + position, ${model.n_layers} block${model.n_layers > 1 ? "s" : ""} …`;
  root.append(el("p", { class: "flow-blocks" }, between));
  const showExit = strips(root, {
    label: "The vector after the last block",
    width,
    lines: 1,
    cellHeight: 22,
    describe: (r, c) => show([`h[${c}] = `, strong(number(h[c]))]),
  });
  root.append(
    el("p", { class: "flow-arrow" }, "out ↓ ", el("small", {}, "times every row of the same table: h · E")),
  );
  const left = el("div");
  const right = el("div");
  root.append(el("div", { class: "table-and-bars" }, left, right));
  const showRows = strips(left, {
    label: "Rows of the table with the highest scores",
    width,
    lines: MOST_LOGITS,
    cellHeight: 15,
    describe: (r) => {
      const id = shown[r];
      if (id === undefined) return;
      const products = sumOfProducts(h, rows.row(id), logits[id]);
      show(
        ["logit of ", tokenName(vocabulary[id]), ` = Σᵢ h[i] · E[${id}, i]`],
        ["= ", products, " = ", strong(number(logits[id]))],
      );
    },
  });
  const showBars = bars(right, { label: "Logits", signed: true });
  const showScale = legend(root);
  const show = readout(root);
  return () => {
    const { token } = page.state;
    logits = tensor("logits").row(token);
    h = final.row(token);
    shown = ranked(logits).slice(0, MOST_LOGITS);
    showEntry([{ label: tokens[token], values: rows.row(ids[token]) }]);
    showExit([{ label: "h", values: h }]);
    const lines = shown.map((id) => ({ label: vocabulary[id], values: rows.row(id) }));
    while (lines.length < MOST_LOGITS) lines.push({ label: "", values: new Float32Array(width) });
    showScale(showRows(lines, [0, largestAt(h.map((x, i) => x * rows.at(shown[0], i)))]), "E");
    showBars(shown.map((id) => ({ label: "", value: logits[id] })));
  };
});

function onlyLogits(root, reason) {
  chooseToken(root);
  note(root, reason);
  const showBars = bars(root, { label: "Logits", signed: true });
  return () => {
    const logits = tensor("logits").row(page.state.token);
    const best = ranked(logits).slice(0, MOST_LOGITS);
    showBars(best.map((id) => ({ label: page.data.vocabulary[id], value: logits[id] })));
  };
}

// The probabilities to draw from, as `transformer.generation.Sampling.distribution` computes them.
function distribution(logits, { temperature, topK, topP }) {
  if (temperature === 0) {
    const best = ranked(logits)[0];
    return Array.from(logits, (_, i) => (i === best ? 1 : 0));
  }
  const most = Math.max(...logits);
  const probabilities = softmax(Array.from(logits, (x) => (x - most) / temperature));
  let before = 0;
  const kept = new Set();
  ranked(probabilities).forEach((i, place) => {
    if (place < (topK || probabilities.length) && (topP >= 1 || before < topP)) kept.add(i);
    before += probabilities[i];
  });
  const total = sum([...kept].map((i) => probabilities[i]));
  return probabilities.map((p, i) => (kept.has(i) ? p / total : 0));
}

// Draw an index with these probabilities.
function sample(probabilities) {
  let left = Math.random();
  for (let i = 0; i < probabilities.length; i++) {
    left -= probabilities[i];
    if (left < 0 && probabilities[i] > 0) return i;
  }
  return ranked(probabilities)[0]; // rounding left a crumb
}

const PLAIN = { temperature: 1, topK: 0, topP: 1 };

// Sliders for how to draw.  Returns {settings, reset()}.
function samplingKnobs(root, change) {
  const settings = { ...PLAIN };
  const knob = (name, options) => {
    const set = (x) => {
      settings[name] = x;
      change();
    };
    return [name, slider(root, { ...options, value: PLAIN[name], change: set })];
  };
  const knobs = [
    knob("temperature", {
      ...{ label: "Temperature", min: 0, max: 3, step: 0.05 },
      format: (x) => (x === 0 ? "0: the best only" : x.toFixed(2)),
    }),
    knob("topK", {
      ...{ label: "Top-k", min: 0, max: Math.min(50, page.data.vocabulary.length) },
      format: (x) => (x === 0 ? "off" : String(x)),
    }),
    knob("topP", {
      ...{ label: "Top-p", min: 0.05, max: 1, step: 0.01 },
      format: (x) => (x >= 1 ? "off" : x.toFixed(2)),
    }),
  ];
  const reset = () => {
    Object.assign(settings, PLAIN);
    for (const [name, one] of knobs) one.set(PLAIN[name]);
    change();
  };
  return { settings, reset };
}

figure("output-bars", ["token"], (root) => {
  const { vocabulary } = page.data;
  chooseToken(root, "After which token?");
  const bar = controls(root);
  const drawn = new Map(); // how often each token came up
  const logitsNow = () => tensor("logits").row(page.state.token);
  const { settings, reset } = samplingKnobs(bar, draw);
  button(bar, "Reset", reset);
  button(bar, "Draw 1,000 times", () => {
    const probabilities = distribution(logitsNow(), settings);
    drawn.clear();
    for (let n = 0; n < 1000; n++) {
      const token = sample(probabilities);
      drawn.set(token, (drawn.get(token) || 0) + 1);
    }
    paint();
  });
  const showBars = bars(root, { label: "Probabilities to draw from", format: percent });
  const show = readout(root);

  function draw() {
    drawn.clear();
    paint();
  }

  function paint() {
    const logits = logitsNow();
    const plain = softmax(logits);
    const probabilities = distribution(logits, settings);
    const order = ranked(logits).slice(0, MOST_LOGITS);
    const said = (p, times) => (drawn.size ? `${percent(p)}, drawn ${integer(times)}` : percent(p));
    const items = order.map((i) => ({
      label: vocabulary[i],
      value: probabilities[i],
      text: said(probabilities[i], drawn.get(i) || 0),
      mark: plain[i],
      muted: probabilities[i] === 0,
      point: () => explain(i),
    }));
    const others = vocabulary.length - order.length;
    if (others > 0) {
      const rest = (list) => 1 - sum(order.map((i) => list[i]));
      const value = rest(probabilities) < 1e-12 ? 0 : rest(probabilities);
      const times = sum([...drawn].map(([i, n]) => (order.includes(i) ? 0 : n)));
      const mark = Math.max(0, rest(plain));
      items.push({ label: `${integer(others)} others`, value, text: said(value, times), mark, muted: true });
    }
    showBars(items, 1);
    explain(order[0]);

    // How a token comes by its probability.
    function explain(id) {
      const name = ["p(", tokenName(vocabulary[id]), ") = "];
      show([...name, ...formula(logits[id], probabilities[id])], openness(probabilities, plain));
    }
  }

  function formula(logit, p) {
    const { temperature } = settings;
    const result = strong(percent(p));
    if (temperature === 0) return [result, ": at temperature 0 the likeliest token is drawn, and no other."];
    if (p === 0) return [result, ": cut off."];
    const raised = Math.exp(logit / temperature);
    const exponent = `${number(logit)} / ${temperature.toFixed(2)}`;
    return [`e^(${exponent}) / Σ = ${number(raised)} / ${number(raised / p)} = `, result];
  }

  function openness(probabilities, plain) {
    const open = (list) => number(Math.exp(entropy(list)));
    const possible = integer(probabilities.filter((p) => p > 0).length);
    const said = `the choice is as open as one among ${open(probabilities)} equal ones (plain: ${open(plain)})`;
    return `${possible} tokens can be drawn; ${said}.`;
  }

  return draw;
});

figure("output-loss", ["step", "token"], (root) => {
  const { losses } = chapterData("output");
  const { tokens } = page.data.text;
  const uniform = Math.log(page.data.vocabulary.length);
  if (tokens.length < 2) {
    note(root, "The text has one token, and the first can't be predicted: give a longer text.");
    return null;
  }
  const scale = amountScale(uniform, "nats of surprise");
  const title = partTitle(root);
  const chips = chooseToken(root, "");
  legend(root, scale);
  const show = readout(root);
  let now = []; // the loss of each token from the second on

  function tint() {
    chips.slice(1).forEach((chip, i) => {
      chip.style.background = scale.color(now[i]);
      chip.style.color = rgb(now[i] > uniform * 0.42 ? palette.paper : palette.ink);
    });
  }
  chips[0].style.background = "transparent"; // it was not guessed
  painted.add({ canvas: root, draw: tint });

  return () => {
    const { step, token } = page.state;
    now = unpackOnce(losses[step]).numbers;
    tint();
    const said = el("small", {}, `${stepName(step)} · a blind guess: ${number(uniform)}`);
    title.replaceChildren(`Mean loss: ${number(mean(now))} nats per token `, said);
    const name = tokenName(tokens[token]);
    if (token === 0) {
      show(["The first token, ", name, ", had nothing before it, so there was no guess."]);
    } else {
      const loss = now[token - 1];
      show([
        "Before ",
        name,
        ` came, it had p = ${percent(Math.exp(-loss))}: −ln p = `,
        strong(number(loss)),
        " nats",
      ]);
    }
  };
});
