// What figures are built from: elements, controls, bars, the row of tokens, and the lines that show a formula.

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

// A token, or a part of one, that is only shown; a marked one stands out.
const piece = (text, isMarked = false) => el("span", { class: isMarked ? "piece fresh" : "piece" }, text);

// A row of such tokens.
function phrase(root, name, tokens, isMarked) {
  const pieces = tokens.map((text, i) => piece(text, isMarked(i)));
  root.append(el("p", { class: "phrase" }, el("span", { class: "phrase-name" }, name), pieces));
}

// The line below a figure that shows the formula of the cell under the pointer, the finger or the keyboard's
// cursor. show(lines): each line is a text, an element, or a list of them.
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

// The line above a part of a figure that says what it is.
function partTitle(root, ...content) {
  const node = el("p", { class: "part-title" }, ...content);
  root.append(node);
  return node;
}

// What the colours mean.  Returns update(scale, label).
function legend(root, scale = null, label = "") {
  const box = el("div", { class: "legend" });
  root.append(box);
  let shown = null;
  const draw = () => {
    if (!shown) return;
    const [{ low, high, unit, color, text = (x) => number(x, 2) }, name] = shown;
    const from = text(low);
    const to = unit ? `${text(high)} ${unit}` : text(high);
    const steps = Array.from({ length: 25 }, (_, i) => color(low + ((high - low) * i) / 24));
    const ramp = el("span", {
      class: "legend-ramp",
      role: "img",
      "aria-label": `from ${from} to ${to}`,
      style: { background: `linear-gradient(to right, ${steps.join(",")})` },
    });
    box.replaceChildren(name ? `${name} ` : "", el("span", { class: "legend-scale" }, from, ramp, to));
  };
  const update = (...changes) => {
    shown = changes;
    draw();
  };
  painted.add({ canvas: box, draw });
  if (scale) update(scale, label);
  return update;
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

// Choosers of what the page has chosen, for the head of a figure; they follow when it is chosen elsewhere.

// The reader's tokens as a row.  Returns their chips.
function chooseToken(root, label = "Choose a token") {
  const { tokens } = page.data.text;
  const name = newId();
  const inputs = tokens.map((text, i) =>
    el("input", {
      ...{ type: "radio", name, value: i, "aria-label": `${text}, position ${i}` },
      onchange: () => choose({ token: i }),
    }),
  );
  const chips = tokens.map((text, i) =>
    el("label", { class: "chip", title: `position ${i}` }, inputs[i], el("span", {}, text)),
  );
  root.append(el("fieldset", { class: "tokens" }, el("legend", {}, label), chips));
  follow("token", (i) => (inputs[i].checked = true));
  return chips;
}

function chooseLayer(root) {
  follow(
    "layer",
    chooseNumber(root, "Block", page.data.model.n_layers, (i) => choose({ layer: i })),
  );
}

function chooseHead(root) {
  follow(
    "head",
    chooseNumber(root, "Head", page.data.model.n_heads, (i) => choose({ head: i })),
  );
}

function chooseNumber(root, label, count, change) {
  return choice(root, { label, options: Array.from({ length: count }, (_, i) => String(i + 1)), change });
}

// Call set() with a part of the state, now and whenever it changes.
function follow(name, set) {
  set(page.state[name]);
  watch([name], () => set(page.state[name]));
}

// Horizontal bars.  Items: {label, value, text, mark, muted, point()}; `most` is what fills a track; point() is called
// when the reader points at the bar.  Returns update(items, most).
function bars(root, { label, signed = false, format = number }) {
  const list = el("ol", { class: signed ? "bars bars-signed" : "bars", "aria-label": label });
  root.append(list);
  let current = [];
  return (items, most = Math.max(...items.map((item) => Math.abs(item.value)), 1e-30)) => {
    current = items;
    while (list.children.length > items.length) list.lastChild.remove();
    while (list.children.length < items.length) {
      const i = list.children.length;
      list.append(
        el(
          "li",
          { onpointerenter: () => current[i].point?.() },
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
      list.children[i].className = item.muted ? "muted" : "";
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

// A sum of products with its numbers: of a short one all of them, of a long one the largest, and the rest
// together. `left` and `right` may colour the two factors.
function sumOfProducts(a, b, total, { left = String, right = String, digits = 3 } = {}) {
  const products = Array.from(a, (x, i) => x * b[i]);
  const shown = products.length <= 5 ? [...products.keys()] : ranked(products.map(Math.abs)).slice(0, 3);
  const terms = shown.map((i) => [left(inside(a[i], digits)), " × ", right(inside(b[i], digits))]);
  const hidden = products.length - shown.length;
  const rest = total - sum(shown.map((i) => products[i]));
  if (hidden) terms.push(`${hidden} smaller products that make ${inside(rest, digits)}`);
  return terms.map((term, i) => [i ? " + " : "", el("span", { class: "term" }, term)]);
}

// Draw again whenever the room for a drawing has another width.
function drawAtEveryWidth(box, draw) {
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
}

// A sentence in the place of a figure, or beside it: why something can't be shown, or a number that was checked.
function note(root, ...content) {
  const node = el("p", { class: "note" }, ...content);
  root.append(node);
  return node;
}
