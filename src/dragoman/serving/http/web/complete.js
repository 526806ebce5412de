// The tab "Complete": a language model continues a text, token by token.

import { stream } from "./api.js";
import { $, element, latest } from "./dom.js";
import { modelChoice } from "./model_choice.js";

const SETTINGS = [
  { name: "max_new_tokens", label: "Tokens at most", value: 120, min: 1, max: 2048, step: 1 },
  { name: "temperature", label: "Temperature", value: 0.8, min: 0, max: 2, step: 0.1 },
  { name: "top_p", label: "Top p", value: 0.95, min: 0.05, max: 1, step: 0.05 },
  { name: "seed", label: "Seed", value: "", min: 0, max: 4294967295, step: 1, placeholder: "random" },
];
const REASONS = { length: "Stopped at the limit of tokens", end: "Complete", stop: "Complete" };

const prompt = $("prompt");
const out = $("completed");

export function startComplete({ models }) {
  const model = modelChoice(
    $("complete-models"),
    models.filter((one) => one.kind === "generator"),
  );
  showSettings($("complete-settings"));
  const onBusy = (isBusy) => {
    $("stop").hidden = !isBusy;
    $("complete").hidden = isBusy;
    out.classList.toggle("writing", isBusy);
  };
  const run = latest({ error: $("complete-error"), onBusy });
  const stop = () => {
    run.stop();
    $("complete-status").textContent = "Stopped";
    $("complete").focus();
  };
  const start = () => prompt.value && run((signal) => complete(model.value, signal));
  $("complete-form").addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
  $("stop").addEventListener("click", stop);
  $("keep").addEventListener("click", () => {
    prompt.value = out.textContent;
    prompt.focus();
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      start();
    }
    if (event.key === "Escape" && !$("stop").hidden) stop();
  });
}

function showSettings(container) {
  const fields = SETTINGS.map(({ name, label, ...rest }) => {
    return element("label", {}, label, element("input", { type: "number", id: `setting-${name}`, name, ...rest }));
  });
  container.append(...fields);
  input("temperature").addEventListener("input", ({ target }) => {
    for (const name of ["top_p", "seed"]) input(name).disabled = target.value !== "" && Number(target.value) === 0;
  });
}

const input = (name) => $(`setting-${name}`);

// The settings that are given and have an effect; without a seed, each completion is another one.
function settings() {
  const given = SETTINGS.map(({ name }) => input(name)).filter((one) => one.value !== "" && !one.disabled);
  const random = input("seed").disabled ? {} : { seed: Math.floor(Math.random() * 2 ** 31) };
  return { ...random, ...Object.fromEntries(given.map((one) => [one.name, Number(one.value)])) };
}

async function complete(model, signal) {
  const text = prompt.value;
  const since = performance.now();
  $("completed-text").textContent = "";
  out.replaceChildren(element("span", { class: "given", text }));
  $("complete-status").textContent = "";
  const body = { prompts: text, model, ...settings(), stream: true };
  let whole = null;
  for await (const part of stream("api/generate", body, signal)) {
    $("completed-card").hidden = false;
    if (part.text) out.append(element("span", { class: "new", text: part.text }));
    whole = part.completion ?? whole;
  }
  const rate = whole.tokens.length / ((performance.now() - since) / 1000);
  const speed = `${rate.toFixed(rate < 10 ? 1 : 0)} tokens per second`;
  $("complete-status").textContent = `${REASONS[whole.finish_reason]}; ${speed}`;
  $("completed-text").textContent = out.textContent.slice(text.length);
}
