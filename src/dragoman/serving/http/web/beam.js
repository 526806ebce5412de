// The tab "Beam search": every candidate of the search for a translation, and why it was kept or not.

import { detect, post } from "./api.js";
import { $, element, latest, seconds } from "./dom.js";
import { LanguageChoice } from "./languages.js";
import { sentenceInUse } from "./translate.js";

const DELAY = 350; // milliseconds without typing before a request
const END = "<eos>";
const SVG = "http://www.w3.org/2000/svg";
let choice = null;
let search = null;
let buttons = [];
let lines = [];
const text = $("searched");
const size = $("beam-size");
const readout = $("beam-readout");
const run = latest({
  delay: DELAY,
  error: $("beam-error"),
  clear: () => {
    $("tree-card").hidden = true;
    $("beam-status").textContent = "";
  },
  onBusy: (isBusy) => {
    if (isBusy) $("beam-status").textContent = "Searching …";
  },
});

export function startBeam({ languages, models }) {
  choice = new LanguageChoice($("beam-languages"), { languages, models, onChange: update });
  text.addEventListener("input", update);
  size.addEventListener("input", () => {
    $("beam-size-shown").textContent = size.value;
    update();
  });
  $("tree").addEventListener("keydown", move);
  new ResizeObserver(() => search && drawLines()).observe($("tree"));
}

export function openBeam() {
  const before = `${choice.source} ${choice.target}`;
  choice.recall();
  if (text.value ? before === `${choice.source} ${choice.target}` : !sentenceInUse()) return;
  text.value ||= sentenceInUse();
  update();
}

function update() {
  if (!text.value.trim()) {
    run.stop();
    return;
  }
  run(async (signal) => {
    const since = performance.now();
    if (!choice.source) choice.showDetected((await detect(text.value, signal))[0]?.language ?? null);
    const body = {
      text: text.value.trim(),
      source: choice.known,
      target: choice.target,
      model: choice.model,
      beam_tree: true,
      beam_size: Number(size.value),
    };
    const { beam } = await post("api/explain", body, signal);
    if (!beam) throw new Error("This model tells nothing about its search.");
    search = beam;
    $("tree-card").hidden = false;
    draw();
    $("beam-status").textContent =
      `${beam.steps.length} steps, ${beam.steps.flat().length} candidates, ${seconds(since)}`;
  });
}

const isBest = (step, at) => search.best_path[step] === at;
const nats = (value) => value.toFixed(2).replace("-", "−");
const spoken = (token) => (token === END ? "(end)" : token.replace(/^[▁Ġ]/u, "") || token);

function draw() {
  buttons = search.steps.map((candidates, step) =>
    candidates.map((one, at) => {
      const kinds = [
        "candidate",
        one.outcome,
        isBest(step, at) && "best",
        search.greedy_path?.[step] === at && "greedy",
      ]
        .filter(Boolean)
        .join(" ");
      return element(
        "button",
        {
          type: "button",
          class: kinds,
          tabindex: -1,
          onfocus: () => select(step, at),
          onpointerenter: () => select(step, at),
          onclick: () => select(step, at),
          "aria-label": `${spoken(one.token)}, total ${nats(one.total)} nats, ${one.outcome}`,
          title: `Log-probability ${nats(one.total)} nats, ${one.outcome}`,
        },
        element("span", { text: spoken(one.token), dir: "auto" }),
        element("span", { text: nats(one.total) }),
      );
    }),
  );
  const columns = buttons.map((column, step) =>
    element("div", { class: "step" }, element("span", { text: `Step ${step + 1}` }), ...column),
  );
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  $("tree").replaceChildren(element("div", { class: "tree" }, svg, ...columns));
  drawLines();
  const steps = search.best_path.length;
  select(steps - 1, search.best_path[steps - 1]);
}

function drawLines() {
  const svg = $("tree").querySelector("svg");
  lines = search.steps.map((candidates, step) =>
    candidates.map((one, at) => {
      if (!step || one.parent === null) return null;
      const from = buttons[step - 1][one.parent];
      const to = buttons[step][at];
      const [x, y] = middle(from, from.offsetWidth);
      const [toX, toY] = middle(to, 0);
      const bend = (toX - x) / 2;
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M${x} ${y}C${x + bend} ${y} ${toX - bend} ${toY} ${toX} ${toY}`);
      path.setAttribute("class", [one.outcome, isBest(step, at) && "best"].filter(Boolean).join(" "));
      return path;
    }),
  );
  const drawn = lines.flat().filter(Boolean);
  svg.replaceChildren(...drawn.filter((one) => !one.matches(".best")), ...drawn.filter((one) => one.matches(".best")));
}

function middle(button, dx) {
  const { offsetLeft, offsetTop } = button.parentElement;
  return [offsetLeft + button.offsetLeft + dx, offsetTop + button.offsetTop + button.offsetHeight / 2];
}

// The candidates from the first step to this one.
function pathTo(step, at) {
  const found = [];
  for (let here = at; step >= 0; step--) {
    found.unshift([step, here]);
    here = search.steps[step][here].parent;
  }
  return found;
}

function select(step, at) {
  const path = pathTo(step, at);
  const one = search.steps[step][at];
  for (const lit of $("tree").querySelectorAll(".lit")) lit.classList.remove("lit");
  $("tree").querySelector("button[tabindex='0']")?.setAttribute("tabindex", "-1");
  buttons[step][at].tabIndex = 0;
  if (!isBest(step, at))
    for (const [s, c] of path) {
      buttons[s][c].classList.add("lit");
      lines[s]?.[c]?.classList.add("lit");
    }
  const words = path.map(([s, c]) => search.steps[s][c].token).filter((token) => token !== END);
  const output = words.join("").includes("▁") ? words.join("").replaceAll("▁", " ") : words.join(" ");
  readout.replaceChildren(
    element("strong", { text: output.trim(), lang: choice.target }),
    element("br"),
    element("span", {
      class: "quiet-text",
      text: `Step ${step + 1}: ${nats(one.log_prob)}, total ${nats(one.total)} nats. ${reason(step, at)}`,
    }),
  );
}

function reason(step, at) {
  const one = search.steps[step][at];
  if (isBest(step, at)) return "On the path of the translation.";
  if (one.outcome === "finished") return "Finished, but with a lower score than the translation.";
  if (one.outcome === "continued") return `One of the ${search.beam_size} best unfinished candidates.`;
  const better = search.steps[step].filter((other) => other.total > one.total && other.outcome !== "pruned").length;
  return `Pruned: ${better} candidates were better; the beam size is ${search.beam_size}.`;
}

// Arrow keys: left to the parent, right to the best child, up and down among the candidates of a step.
function move(event) {
  const step = buttons.findIndex((column) => column.includes(document.activeElement));
  if (event.target === $("tree") && event.key === "ArrowRight") {
    event.preventDefault();
    buttons[0]?.[0]?.focus();
    return;
  }
  if (step < 0) return;
  const at = buttons[step].indexOf(document.activeElement);
  const children = search.steps[step + 1] ?? [];
  const next = {
    ArrowUp: [step, at - 1],
    ArrowDown: [step, at + 1],
    ArrowLeft: [step - 1, search.steps[step][at].parent],
    ArrowRight: [step + 1, children.findIndex((one) => one.parent === at)],
  }[event.key];
  if (!next) return;
  event.preventDefault();
  buttons[next[0]]?.[next[1]]?.focus();
}
