// The page's data, its state, and its figures.
//
// How to add a chapter: put its prose into chapters/NAME.html, with an empty <div data-figure="FIGURE"></div> in
// each <figure> and a <figcaption> that says what to look at; compute what it needs in a Python module, listed in
// CHAPTERS of data.py (here the result is `page.chapters.NAME`); and register each figure in scripts/NAME.js:
//
//   figure("FIGURE", ["token", "layer"], (root) => {
//     const show = readout(root);              // build once …
//     return () => { … };                      // … and return what runs now, and whenever one of these changes
//   });
//
// A figure that throws shows the reason in its place, and the others go on.

const page = {
  data: null, // as `transformer explain --json` writes it
  chapters: null, // page.data.chapters
  state: { token: 0, layer: 0, head: 0, step: 0 }, // what the reader chose; step counts snapshots
  tensors: new Map(),
};

// --- tensors ------------------------------------------------------------------------------------------------

const BYTES = { float32: 4, float16: 2, int32: 4 };

function float16(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

// Turn {shape, dtype, data} into a tensor: `at(i, j, …)` is a number, `row(i, …)` the numbers below an index.
function unpack(entry) {
  const text = atob(entry.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  const size = BYTES[entry.dtype];
  const n = bytes.length / size;
  const numbers = entry.dtype === "int32" ? new Int32Array(n) : new Float32Array(n);
  for (let i = 0; i < n; i++) {
    if (entry.dtype === "float32") numbers[i] = view.getFloat32(i * size, true);
    else if (entry.dtype === "int32") numbers[i] = view.getInt32(i * size, true);
    else numbers[i] = float16(view.getUint16(i * size, true));
  }
  const shape = entry.shape;
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const offset = (index) => index.reduce((sum, i, axis) => sum + i * strides[axis], 0);
  return {
    shape,
    numbers,
    at: (...index) => numbers[offset(index)],
    row: (...index) => numbers.subarray(offset(index), offset(index) + strides[index.length - 1]),
  };
}

// A captured tensor by its name in the cache, such as "blocks.0.attention.q".
function tensor(name) {
  if (!page.tensors.has(name)) {
    const entry = page.data.tensors[name];
    if (!entry) throw new Error(`the page's data has no tensor ${name}`);
    page.tensors.set(name, unpack(entry));
  }
  return page.tensors.get(name);
}

// A tensor packed anywhere else in the data; each is unpacked once.
const unpackedEntries = new WeakMap();
function unpackOnce(entry) {
  if (!unpackedEntries.has(entry)) unpackedEntries.set(entry, unpack(entry));
  return unpackedEntries.get(entry);
}

// What Python computed for a chapter.
function chapterData(name) {
  const data = page.chapters[name];
  if (!data) throw new Error(`the page's data has no chapter ${name}`);
  if (data.error) throw new Error(data.error);
  return data;
}

// The stages of the training that can be shown, each with its step; the finished model is the last.
function timeAxis() {
  return page.chapters.training.snapshots || [];
}

// --- state --------------------------------------------------------------------------------------------------

const watchers = [];

// Call `update` whenever the reader changes one of these parts of the state.
function watch(keys, update) {
  watchers.push({ keys, update });
}

function choose(changes) {
  const changed = Object.keys(changes).filter((key) => page.state[key] !== changes[key]);
  if (!changed.length) return;
  Object.assign(page.state, changes);
  for (const { keys, update } of [...watchers]) if (keys.some((key) => changed.includes(key))) update();
}

// --- figures ------------------------------------------------------------------------------------------------

const figures = new Map();

function figure(name, uses, build) {
  figures.set(name, { uses, build });
}

// Draw a figure into a new element, so that nothing that the last one left behind is kept.
function drawFigure(place) {
  const root = el("div");
  place.replaceChildren(root);
  attempt(place, () => {
    const { uses, build } = figures.get(place.dataset.figure) || {};
    if (!build) throw new Error(`there is no figure ${place.dataset.figure}`);
    const update = build(root);
    if (!update) return;
    update();
    watch(uses, () => attempt(place, update));
  });
}

// Do something for a figure; if it throws, the reason stands in the figure's place.
function attempt(place, action) {
  try {
    action();
  } catch (error) {
    console.info(`figure ${place.dataset.figure}: ${error.stack || error}`);
    const reason = `This figure can't be drawn: ${error.message}`;
    place.replaceChildren(el("p", { class: "failed", role: "alert" }, reason));
  }
}

// What stands in the data at a path such as "model.d_model".
function valueAt(path) {
  return path.split(".").reduce((data, name) => (data == null ? data : data[name]), page.data);
}

// Fill the numbers that stand in the prose: <b data-value="model.parameters" data-format="integer"></b>.
function fillValues() {
  for (const place of document.querySelectorAll("[data-value]")) {
    const value = valueAt(place.dataset.value);
    const format = FORMATS[place.dataset.format || (typeof value === "number" ? "number" : "text")];
    place.textContent = value == null ? "(not known)" : format(value);
  }
}

// Parts of the prose that hold only for some models: <p data-if="model.norm=pre">.
function showConditions() {
  for (const place of document.querySelectorAll("[data-if]")) {
    const [path, wanted] = place.dataset.if.split("=");
    const value = valueAt(path);
    place.hidden = wanted === undefined ? !value : String(value) !== wanted;
  }
}

// What is shown of a text before the reader chooses.
function opening(data) {
  const [{ layer, head }] = data.chapters.projections.weights || [{ layer: 0, head: 0 }];
  return { token: data.text.ids.length - 1, layer, head };
}

// Show a text's data.  What the reader chose stays; before that it is the last token, and the head whose weights
// are in the page.
function load(data) {
  const { state } = page;
  const before = page.data && opening(page.data);
  const now = opening(data);
  if (!before || state.token >= before.token) state.token = now.token;
  state.token = Math.min(state.token, now.token);
  if (!before || (state.layer === before.layer && state.head === before.head)) {
    Object.assign(state, { layer: now.layer, head: now.head });
  }
  page.data = data;
  page.chapters = data.chapters;
  page.tensors.clear();
  watchers.length = 0;
  painted.clear();
  state.step = Math.max(0, timeAxis().length - 1);
  fillValues();
  showConditions();
  startTimeline();
  undrawn = [...document.querySelectorAll("[data-figure]")];
  delete document.documentElement.dataset.drawn;
  drawSome();
}

// Figures are drawn from the top in short turns, so that the page answers from the first one on.
const TURN = 40; // milliseconds
let undrawn = [];

function drawSome() {
  const end = performance.now() + TURN;
  while (undrawn.length && performance.now() < end) drawFigure(undrawn.shift());
  if (undrawn.length) setTimeout(drawSome);
  else document.documentElement.dataset.drawn = "true";
}

function drawAll() {
  while (undrawn.length) drawFigure(undrawn.shift());
}
