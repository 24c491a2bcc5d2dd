// The frame around the figures: the list of chapters, the time axis, and the text box of the served page.

// --- time axis ----------------------------------------------------------------------------------------------

let timelineBuilt = null;

function stepName(i) {
  const snapshots = (page.chapters.training || {}).snapshots || [];
  const snapshot = snapshots[i];
  if (!snapshot) return "";
  if (snapshot.step === null) return "the finished model";
  return snapshot.step === 0 ? "step 0, untrained" : `step ${integer(snapshot.step)}`;
}

function startTimeline() {
  const place = document.getElementById("timeline");
  const snapshots = (page.chapters.training || {}).snapshots || [];
  place.replaceChildren();
  place.hidden = snapshots.length < 2;
  if (timelineBuilt) clearInterval(timelineBuilt);
  timelineBuilt = null;
  if (place.hidden) return;
  const last = snapshots.length - 1;
  const play = button(place, "▶", () => {
    if (timelineBuilt) return stop();
    if (page.state.step === last) choose({ step: 0 });
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "Pause");
    timelineBuilt = setInterval(
      () => (page.state.step >= last ? stop() : choose({ step: page.state.step + 1 })),
      900,
    );
  });
  const stop = () => {
    clearInterval(timelineBuilt);
    timelineBuilt = null;
    play.textContent = "▶";
    play.setAttribute("aria-label", "Play the training");
  };
  play.setAttribute("aria-label", "Play the training");
  const time = slider(place, {
    label: "Training",
    min: 0,
    max: last,
    value: page.state.step,
    format: stepName,
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
    const link = el(
      "a",
      { href: `#${section.id}` },
      section.dataset.short || section.querySelector("h2").textContent,
    );
    list.append(el("li", {}, link));
    return link;
  });
  const menu = document.getElementById("menu");
  links.forEach((link) =>
    link.addEventListener("click", () => {
      menu.open = window.matchMedia("(min-width: 70rem)").matches;
    }),
  );
  const mark = () => {
    const reached =
      sections.filter((section) => section.getBoundingClientRect().top < window.innerHeight * 0.35).length - 1;
    links.forEach((link, i) =>
      i === reached ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"),
    );
    const here = document.getElementById("here");
    here.textContent = reached < 0 ? "Contents" : links[reached].textContent;
  };
  document.addEventListener("scroll", mark, { passive: true });
  const wide = window.matchMedia("(min-width: 70rem)");
  const open = () => {
    menu.open = wide.matches;
  };
  wide.addEventListener("change", open);
  open();
  mark();
}

// --- the served page: type, and all is computed anew --------------------------------------------------------

function startLive() {
  const form = document.getElementById("live");
  form.hidden = !page.data.served;
  if (form.hidden) return;
  const text = form.elements.text;
  const first = form.elements.first;
  const second = form.elements.second;
  const said = document.getElementById("live-status");
  text.value = page.data.text.given;
  [first.value, second.value] = page.data.compare || ["", ""];
  let waiting = null;
  let asked = 0;
  const ask = async () => {
    const number = ++asked;
    said.textContent = "computing …";
    try {
      const answer = await fetch("data", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ text: text.value, compare: [first.value, second.value] }),
      });
      const data = await answer.json();
      if (number !== asked) return; // something was typed since
      if (!answer.ok) throw new Error(data.error);
      said.textContent = "";
      load(data);
    } catch (error) {
      if (number === asked) said.textContent = error.message;
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
