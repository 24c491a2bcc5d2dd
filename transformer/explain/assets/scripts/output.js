// Chapter 10: the output.

figure("output-table", ["token"], (root) => {
  const data = chapterData("output");
  const { table } = chapterData("embedding");
  const { vocabulary } = page.data;
  const { ids, tokens } = page.data.text;
  const width = page.data.model.d_model;
  const set = chooseToken(root, "Choose a token");
  if (!data.tied || !table) {
    note(
      root,
      data.tied
        ? "The table is too large for this page, so only the scores are shown."
        : "The output matrix of this model is its own, so only the scores are shown.",
    );
    const update = bars(root, { label: "Logits", signed: true });
    return () => {
      set();
      const logits = tensor("logits").row(page.state.token);
      update(
        ranked(logits)
          .slice(0, 12)
          .map((i) => ({ label: vocabulary[i], value: logits[i] })),
      );
    };
  }
  const rows = unpackOnce(table);
  const final = unpackOnce(data.final);
  let shown = [];
  let logits = [];
  let vector = [];
  let show;
  root.append(el("p", { class: "flow-arrow" }, "in ↓ ", el("small", {}, "the token picks its row")));
  const entry = strips(root, {
    label: "The row of the token",
    width,
    lines: 1,
    cellHeight: 22,
    describe: (r, c) =>
      show([`E[${ids[page.state.token]}, ${c}] = `, strong(number(rows.at(ids[page.state.token], c)))]),
  });
  const blocksName = el(
    "p",
    { class: "flow-blocks" },
    `… × √${width}, + position, ${page.data.model.n_layers} blocks …`,
  );
  root.append(blocksName);
  const exit = strips(root, {
    label: "The vector after the last block",
    width,
    lines: 1,
    cellHeight: 22,
    describe: (r, c) => show([`h[${c}] = `, strong(number(vector[c]))]),
  });
  root.append(
    el("p", { class: "flow-arrow" }, "out ↓ ", el("small", {}, "times every row of the same table, h · E")),
  );
  const pair = el("div", { class: "table-and-bars" });
  const left = el("div");
  const right = el("div");
  pair.append(left, right);
  root.append(pair);
  const view = strips(left, {
    label: "Rows of the table with the highest scores",
    width,
    lines: 12,
    cellHeight: 15,
    describe: explain,
  });
  const update = bars(right, { label: "Logits", signed: true, format: (x) => number(x, 3) });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);
  function explain(r, c) {
    const id = shown[r];
    if (id === undefined) return;
    const terms = largestProducts(vector, rows.row(id)).map(
      ({ a, b, product }) => `${number(a)} × ${inside(b)} = ${number(product)}`,
    );
    show(
      ["logit of ", tokenName(vocabulary[id]), ` = Σᵢ h[i] · E[${id}, i] = `, strong(number(logits[id]))],
      `The largest products: ${terms.join(",  ")}`,
    );
  }
  return () => {
    const { token } = page.state;
    set();
    logits = tensor("logits").row(token);
    vector = final.row(token);
    shown = ranked(logits).slice(0, 12);
    entry.update([{ label: tokens[token], values: rows.row(ids[token]) }]);
    exit.update([{ label: "h", values: vector }]);
    const lines = Array.from({ length: 12 }, (_, i) =>
      shown[i] === undefined
        ? { label: "", values: new Float32Array(width) }
        : { label: vocabulary[shown[i]], values: rows.row(shown[i]) },
    );
    const scale = view.update(lines, [0, largestAt(vector.map((x, i) => x * rows.at(shown[0], i)))]);
    scalePlace.replaceChildren(legend(null, scale, "E"));
    update(shown.map((id) => ({ label: "", value: logits[id] })));
  };
});

// The probabilities to draw from, as `transformer.generation.next_token_distribution` computes them.
function distribution(logits, temperature, topK, topP) {
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
  const total = [...kept].reduce((sum, i) => sum + probabilities[i], 0);
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

figure("output-bars", ["token"], (root) => {
  const { vocabulary } = page.data;
  const count = vocabulary.length;
  const set = chooseToken(root, "After which token?");
  const knobs = { temperature: 1, topK: 0, topP: 1 };
  const bar = controls(root);
  const knob = (name, options) =>
    slider(bar, {
      ...options,
      change: (x) => {
        knobs[name] = x;
        draw();
      },
    });
  const temperature = knob("temperature", {
    label: "Temperature",
    min: 0,
    max: 3,
    step: 0.05,
    value: 1,
    format: (x) => (x === 0 ? "0: the best only" : x.toFixed(2)),
  });
  const topK = knob("topK", {
    label: "Top-k",
    min: 0,
    max: Math.min(50, count),
    value: 0,
    format: (x) => (x === 0 ? "off" : String(x)),
  });
  const topP = knob("topP", {
    label: "Top-p",
    min: 0.05,
    max: 1,
    step: 0.01,
    value: 1,
    format: (x) => (x >= 1 ? "off" : x.toFixed(2)),
  });
  button(bar, "Reset", () => {
    Object.assign(knobs, { temperature: 1, topK: 0, topP: 1 });
    temperature.set(1);
    topK.set(0);
    topP.set(1);
    draw();
  });
  const drawn = new Map(); // how often each token came up
  button(bar, "Draw 1,000 times", () => {
    const probabilities = distribution(
      tensor("logits").row(page.state.token),
      knobs.temperature,
      knobs.topK,
      knobs.topP,
    );
    drawn.clear();
    for (let n = 0; n < 1000; n++) {
      const token = sample(probabilities);
      drawn.set(token, (drawn.get(token) || 0) + 1);
    }
    paint();
  });
  const update = bars(root, { label: "Probabilities to draw from", format: percent });
  const show = readout(root);
  function draw() {
    drawn.clear();
    paint();
  }
  function paint() {
    const logits = tensor("logits").row(page.state.token);
    const plain = softmax(logits);
    const probabilities = distribution(logits, knobs.temperature, knobs.topK, knobs.topP);
    const order = ranked(logits).slice(0, 12);
    const rest = Math.max(0, 1 - order.reduce((sum, i) => sum + probabilities[i], 0));
    const plainRest = Math.max(0, 1 - order.reduce((sum, i) => sum + plain[i], 0));
    const text = (p, times) => (drawn.size ? `${percent(p)}, drawn ${integer(times)}` : percent(p));
    const items = order.map((i) => ({
      label: vocabulary[i],
      value: probabilities[i],
      text: text(probabilities[i], drawn.get(i) || 0),
      mark: plain[i],
      muted: probabilities[i] === 0,
    }));
    if (count > order.length) {
      const value = rest < 1e-12 ? 0 : rest;
      const times = [...drawn].reduce((sum, [i, n]) => sum + (order.includes(i) ? 0 : n), 0);
      items.push({
        label: `${integer(count - order.length)} others`,
        value,
        text: text(value, times),
        mark: plainRest,
        muted: true,
      });
    }
    update(items, Math.max(...items.map((item) => Math.max(item.value, item.mark))));
    const best = order[0];
    const entropy = (list) => -list.reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0);
    show(
      [
        "p(",
        tokenName(vocabulary[best]),
        ") = e^(",
        number(logits[best]),
        ` / ${knobs.temperature === 0 ? "0" : knobs.temperature.toFixed(2)}) / Σ = `,
        strong(percent(probabilities[best])),
      ],
      `${integer(probabilities.filter((p) => p > 0).length)} tokens can be drawn; the choice is as open as one among ${number(Math.exp(entropy(probabilities)))} equal ones (plain: ${number(Math.exp(entropy(plain)))}).`,
    );
  }
  return () => {
    set();
    draw();
  };
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
  let now = [];
  let show;
  const title = el("p", { class: "part-title" });
  root.append(title);
  const row = tokenRow(root, {
    label: "",
    tint: (i) => {
      if (i === 0) return { background: "transparent", color: "" };
      return {
        background: scale.color(now[i - 1]),
        color: rgb(now[i - 1] > uniform * 0.42 ? palette.paper : palette.ink),
      };
    },
  });
  legend(root, scale);
  show = readout(root);
  return () => {
    const { step, token } = page.state;
    now = unpackOnce(losses[step]).numbers;
    const mean = now.reduce((a, b) => a + b, 0) / now.length;
    row.set(token);
    title.replaceChildren(
      `Mean loss: ${number(mean)} nats per token `,
      el("small", {}, `${stepName(step)} · a blind guess: ${number(uniform)}`),
    );
    show(
      token === 0
        ? ["The first token, ", tokenName(tokens[0]), ", had nothing before it, so there was no guess."]
        : [
            "Before ",
            tokenName(tokens[token]),
            ` came, it had p = ${percent(Math.exp(-now[token - 1]))}: −ln p = `,
            strong(number(now[token - 1])),
            " nats",
          ],
    );
  };
});
