// The frame around the figures: the list of chapters, the time axis, and the text box of the served page.

// --- time axis ----------------------------------------------------------------------------------------------

let playing = null; // the interval of the play button

function stepName(i) {
  const stage = timeAxis()[i];
  if (!stage) return "";
  if (stage.step === null) return "the finished model";
  return stage.step === 0 ? "step 0, untrained" : `step ${integer(stage.step)}`;
}

function startTimeline() {
  const place = document.getElementById("timeline");
  const last = timeAxis().length - 1;
  clearInterval(playing);
  playing = null;
  place.replaceChildren();
  place.hidden = last < 1;
  if (place.hidden) return;
  const play = button(place, "", () => (playing ? stop() : start()));
  const show = (sign, label) => {
    play.textContent = sign;
    play.setAttribute("aria-label", label);
  };
  const start = () => {
    if (page.state.step === last) choose({ step: 0 });
    show("❚❚", "Pause");
    playing = setInterval(() => (page.state.step < last ? choose({ step: page.state.step + 1 }) : stop()), 900);
  };
  const stop = () => {
    clearInterval(playing);
    playing = null;
    show("▶", "Play the training");
  };
  stop();
  const time = slider(place, {
    ...{ label: "Training", min: 0, max: last, value: page.state.step, format: stepName },
    change: (i) => choose({ step: i }),
  });
  time.input.id = "step";
  watch(["step"], () => time.set(page.state.step));
}

// --- the list of chapters -----------------------------------------------------------------------------------

function startNavigation() {
  const list = document.getElementById("chapters");
  const sections = [...document.querySelectorAll("main > section[id]")];
  const links = sections.map((section) => {
    const link = el("a", { href: `#${section.id}` }, section.dataset.short);
    list.append(el("li", {}, link));
    return link;
  });
  const menu = document.getElementById("menu");
  const wide = window.matchMedia("(min-width: 70rem)"); // else the list is a menu, which opens over the page
  const fold = () => {
    menu.open = wide.matches;
  };
  wide.addEventListener("change", fold);
  list.addEventListener("click", fold);
  fold();
  const mark = () => {
    const passed = sections.filter((section) => section.getBoundingClientRect().top < window.innerHeight * 0.35);
    const here = passed.length - 1;
    links.forEach((link, i) => link.setAttribute("aria-current", String(i === here)));
    document.getElementById("here").textContent = here < 0 ? "Contents" : links[here].textContent;
  };
  document.addEventListener("scroll", mark, { passive: true });
  mark();
}

// --- the served page: type, and all is computed anew --------------------------------------------------------

function startLive() {
  const form = document.getElementById("live");
  form.hidden = !page.data.served;
  if (form.hidden) return;
  const { text, first, second } = form.elements;
  const said = document.getElementById("live-status");
  text.value = page.data.text.given;
  [first.value, second.value] = page.data.compare || ["", ""];
  let waiting = null;
  let asked = 0;
  const ask = async () => {
    const turn = ++asked;
    said.textContent = "computing …";
    try {
      const answer = await fetch("data", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ text: text.value, compare: [first.value, second.value] }),
      });
      const data = await answer.json();
      if (turn !== asked) return; // something was typed since
      if (!answer.ok) throw new Error(data.error);
      said.textContent = "";
      load(data);
    } catch (error) {
      if (turn === asked) said.textContent = error.message;
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, 350);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
}

// --- begin --------------------------------------------------------------------------------------------------

readPalette();
load(JSON.parse(document.getElementById("data").textContent));
startNavigation();
if (location.hash) {
  drawAll();
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}
document.addEventListener(
  "click",
  (event) => {
    if (event.target.closest("a[href^='#']")) drawAll();
  },
  { capture: true },
);
startLive();
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  redrawAll();
});
let themeBeforePrint;
window.addEventListener("beforeprint", () => {
  drawAll();
  themeBeforePrint = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  redrawAll();
});
window.addEventListener("afterprint", () => {
  if (themeBeforePrint) document.documentElement.dataset.theme = themeBeforePrint;
  else delete document.documentElement.dataset.theme;
  redrawAll();
});
document.documentElement.dataset.ready = "true";
