// Numbers as text and as colours.
//
// Signed values: blue below zero, red-brown above, paper at zero.  Probabilities: paper to ink.  Both are read
// from the style sheet, so that light, dark and print agree.

// A number with `digits` significant digits, a real minus sign, and no trailing noise.
function number(x, digits = 3) {
  if (x === undefined || x === null || Number.isNaN(x)) return "not a number";
  if (x === Infinity) return "∞";
  if (x === -Infinity) return "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  let text;
  if (size >= 10000 || size < 0.001) {
    const [mantissa, exponent] = size.toExponential(Math.max(0, digits - 2)).split("e");
    text = `${mantissa}·10${superscript(Number(exponent))}`;
  } else {
    text = size.toFixed(Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(size)))));
    if (size >= 1000) text = integer(text);
  }
  return (x < 0 ? "−" : "") + text;
}

// A number inside a formula: a negative one in brackets.
function inside(x, digits = 3) {
  return x < 0 ? `(${number(x, digits)})` : number(x, digits);
}

function superscript(n) {
  return [...String(n)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
}

function integer(n) {
  return Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

function percent(p) {
  if (p === 0) return "0";
  if (p === 1) return "100%";
  if (p < 0.0001) return number(p, 2);
  if (p < 0.01) return `${(100 * p).toFixed(2)}%`;
  if (p > 0.9995) return `${(100 * p).toFixed(3)}%`;
  return `${(100 * p).toFixed(1)}%`;
}

const FORMATS = { number, integer, percent, text: String };

// --- colours ------------------------------------------------------------------------------------------------

function cssColor(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = text.slice(1);
  return [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16));
}

let palette = {};

function readPalette() {
  palette = {};
  for (const name of [
    "paper",
    "ink",
    "negative",
    "negative-far",
    "positive",
    "positive-far",
    "muted",
    "line",
    "accent",
    "query",
    "key",
    "value",
  ]) {
    palette[name] = cssColor(`--${name}`);
  }
  palette.unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // larger on a projector
  palette.mono = getComputedStyle(document.body).getPropertyValue("--mono");
}

function mix(a, b, share) {
  return a.map((from, i) => from + (b[i] - from) * share);
}

function rgb(color) {
  return `rgb(${color.map(Math.round).join(" ")})`;
}

function along(colors, share) {
  const place = Math.max(0, Math.min(1, share)) * (colors.length - 1);
  const i = Math.min(colors.length - 2, Math.floor(place));
  return rgb(mix(colors[i], colors[i + 1], place - i));
}

// A ramp of 257 colours, made anew when the palette changes: looking a colour up is much faster than mixing it.
function ramp(stops) {
  let made = null;
  let table = [];
  return (share) => {
    if (made !== palette) {
      made = palette;
      const colors = stops();
      table = Array.from({ length: 257 }, (_, i) => along(colors, i / 256));
    }
    return table[Math.round(256 * Math.max(0, Math.min(1, share)))];
  };
}

const SIGNED = ramp(() =>
  ["negative-far", "negative", "paper", "positive", "positive-far"].map((name) => palette[name]),
);
const AMOUNTS = Object.fromEntries(
  ["ink", "accent"].map((tone) => [tone, ramp(() => [palette.paper, palette[tone]])]),
);

// A scale maps values to colours, and says what its legend has to.
function signedScale(largest, unit = "") {
  const most = largest || 1;
  return { unit, low: -most, high: most, color: (x) => SIGNED((x / most + 1) / 2) };
}

function amountScale(largest = 1, unit = "", tone = "ink") {
  const most = largest || 1;
  return { unit, low: 0, high: most, color: (x) => AMOUNTS[tone](x / most) };
}

// --- mathematics --------------------------------------------------------------------------------------------

const sum = (values) => values.reduce((a, b) => a + b, 0);
const mean = (values) => sum(values) / values.length;

function softmax(scores) {
  const most = Math.max(...scores);
  const powers = Array.from(scores, (x) => Math.exp(x - most));
  const total = sum(powers);
  return powers.map((x) => x / total);
}

// How open a choice is, in nats.
function entropy(probabilities) {
  return -sum(probabilities.map((p) => (p > 0 ? p * Math.log(p) : 0)));
}

function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

function length(a) {
  return Math.sqrt(dot(a, a));
}

// The size of the number farthest from zero, of all lists.
function largestSize(...lists) {
  let most = 0;
  for (const list of lists) for (const x of list) if (Number.isFinite(x)) most = Math.max(most, Math.abs(x));
  return most;
}

// Where the number farthest from zero stands.
function largestAt(values) {
  return ranked(Array.from(values, Math.abs))[0];
}

// The indices of a list, by falling value.
function ranked(values) {
  return Array.from(values, (_, i) => i).sort((i, j) => values[j] - values[i] || i - j);
}
