// What figures are built from: elements, controls, bars, the row of tokens, and the line that shows a formula.

// Make an element.  Texts go in as text, never as HTML, so whatever a token holds, it can't do anything here.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, part] of Object.entries(value)) node.style.setProperty(key, part);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

let lastId = 0;
const newId = () => `part-${++lastId}`;

// Coloured names in formulas: q("q₃") is violet wherever it stands.
const toned = (tone) => (text) => el("span", { class: `tone-${tone}` }, text);
const Q = toned("query");
const K = toned("key");
const V = toned("value");
const strong = (text) => el("b", {}, text);

// A token as it stands in a sentence of ours.
const tokenName = (text) => el("span", { class: "token-name" }, text);

// The line below a figure that shows the formula of the cell under the pointer, the finger or the keyboard's cursor.
// show(lines): each line is a text, an element, or a list of them.
function readout(root) {
  const box = el("div", { class: "readout", "aria-live": "off" });
  root.append(box);
  // Read aloud only while the reader is in this figure: otherwise a page of figures would speak at once.
  root.addEventListener("focusin", () => box.setAttribute("aria-live", "polite"));
  root.addEventListener("focusout", () => box.setAttribute("aria-live", "off"));
  return (...lines) => {
    box.replaceChildren(...lines.filter(Boolean).map((line) => el("div", {}, line)));
  };
}

function legend(root, scale, label = "") {
  const steps = Array.from({ length: 25 }, (_, i) => scale.color(scale.low + ((scale.high - scale.low) * i) / 24));
  const unit = scale.unit ? ` ${scale.unit}` : "";
  const box = el(
    "div",
    { class: "legend" },
    label ? el("span", { class: "legend-label" }, label) : null,
    el("span", {}, number(scale.low, 2)),
    el("span", {
      class: "legend-ramp",
      role: "img",
      "aria-label": `from ${number(scale.low, 2)} to ${number(scale.high, 2)}${unit}`,
      style: { background: `linear-gradient(to right, ${steps.join(",")})` },
    }),
    el("span", {}, number(scale.high, 2) + unit),
  );
  if (root) root.append(box);
  return box;
}

function controls(root) {
  const box = el("div", { class: "controls" });
  root.append(box);
  return box;
}

// A slider with its label and value.  Returns {input, set(value)}.
function slider(root, { label, min, max, step = 1, value, format = number, change }) {
  const id = newId();
  const output = el("output", { for: id });
  const input = el("input", { id, type: "range", min, max, step });
  const show = () => {
    const text = format(Number(input.value));
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  input.value = value;
  input.addEventListener("input", () => {
    show();
    change(Number(input.value));
  });
  root.append(el("div", { class: "slider" }, el("label", { for: id }, label), input, output));
  show();
  return {
    input,
    set: (x) => {
      input.value = x;
      show();
    },
  };
}

// One of several, as a row of buttons.  Returns set(index).
function choice(root, { label, options, value = 0, change }) {
  const name = newId();
  const inputs = options.map((option, i) =>
    el("input", { type: "radio", name, value: i, onchange: () => change(i) }),
  );
  root.append(
    el(
      "fieldset",
      { class: "choice" },
      el("legend", {}, label),
      options.map((option, i) => el("label", {}, inputs[i], el("span", {}, option))),
    ),
  );
  const set = (i) => {
    if (inputs[i]) inputs[i].checked = true;
  };
  set(value);
  return set;
}

function button(root, label, press) {
  const node = el("button", { type: "button", onclick: press }, label);
  root.append(node);
  return node;
}

// The reader's tokens as a row; one is chosen.  `tint(i)` may give each a background.
function tokenRow(
  root,
  { label = "token", change = (i) => choose({ token: i }), tint = null, tokens = page.data.text.tokens } = {},
) {
  const name = newId();
  const inputs = tokens.map((_, i) =>
    el("input", {
      type: "radio",
      name,
      value: i,
      onchange: () => change(i),
      "aria-label": `${tokens[i]}, position ${i}`,
    }),
  );
  const chips = tokens.map((text, i) =>
    el("label", { class: "chip", title: `position ${i}` }, inputs[i], el("span", {}, text)),
  );
  root.append(el("fieldset", { class: "tokens" }, el("legend", {}, label), chips));
  return {
    chips,
    set(i) {
      if (inputs[i]) inputs[i].checked = true;
      if (tint)
        chips.forEach((chip, j) => {
          const color = tint(j);
          chip.style.setProperty("background", color ? color.background : "");
          chip.style.setProperty("color", color ? color.color : "");
        });
    },
  };
}

// Choosers of the shared state, for the head of a figure.  Returns set(), to call in update().
function chooseToken(root, label = "Choose a token") {
  const row = tokenRow(root, { label });
  return () => row.set(page.state.token);
}

function chooseLayer(root, label = "Block") {
  const set = choice(root, {
    label,
    options: Array.from({ length: page.data.model.n_layers }, (_, i) => String(i + 1)),
    value: page.state.layer,
    change: (i) => choose({ layer: i }),
  });
  return () => set(page.state.layer);
}

function chooseHead(root, label = "Head") {
  const set = choice(root, {
    label,
    options: Array.from({ length: page.data.model.n_heads }, (_, i) => String(i + 1)),
    value: page.state.head,
    change: (i) => choose({ head: i }),
  });
  return () => set(page.state.head);
}

// Horizontal bars.  Items: {label, value, text, tone, mark, muted, title}.  Returns update(items, most).
function bars(root, { label, signed = false, format = number }) {
  const list = el("ol", { class: signed ? "bars bars-signed" : "bars", "aria-label": label });
  root.append(list);
  return (items, most = Math.max(...items.map((item) => Math.abs(item.value)), 1e-30)) => {
    while (list.children.length > items.length) list.lastChild.remove();
    while (list.children.length < items.length) {
      list.append(
        el(
          "li",
          {},
          el("span", { class: "bar-label" }),
          el("span", { class: "bar-track" }, el("span", { class: "bar-fill" }), el("span", { class: "bar-mark" })),
          el("span", { class: "bar-value" }),
        ),
      );
    }
    items.forEach((item, i) => {
      const [name, track, value] = list.children[i].children;
      const [fill, mark] = track.children;
      name.replaceChildren(item.label);
      value.replaceChildren(item.text ?? format(item.value));
      const share = Math.min(1, Math.abs(item.value) / most);
      list.children[i].className = [
        item.tone ? `tone-${item.tone}` : "",
        item.muted ? "muted" : "",
        item.chosen ? "chosen" : "",
      ]
        .join(" ")
        .trim();
      if (signed) {
        fill.style.left = item.value < 0 ? `${50 - 50 * share}%` : "50%";
        fill.style.width = `${50 * share}%`;
        fill.classList.toggle("negative", item.value < 0);
      } else {
        fill.style.width = `${100 * share}%`;
      }
      mark.style.left = item.mark === undefined ? "" : `${Math.min(100, (100 * item.mark) / most)}%`;
      mark.hidden = item.mark === undefined;
    });
  };
}

// A sentence in the place of a figure, or beside it: why something can't be shown, or a number that was checked.
function note(root, ...content) {
  const node = el("p", { class: "note" }, ...content);
  root.append(node);
  return node;
}
