// The tab "Answer": answers to a question, which are marked in the text that they are from.

import { post } from "./api.js";
import { $, element, latest, percent } from "./dom.js";
import { showMarks } from "./marks.js";
import { modelChoice } from "./model_choice.js";

const DELAY = 300; // milliseconds without typing before a request
const COUNT = 3; // answers
const context = $("context");
const question = $("question");

export function startAnswer({ models }) {
  const run = latest({ delay: DELAY, error: $("answer-error"), clear: () => $("answers").replaceChildren() });
  const isAble = (one) => one.kind === "question_answerer";
  const model = modelChoice($("answer-models"), models.filter(isAble), update);
  context.addEventListener("input", update);
  question.addEventListener("input", update);
  update();

  function update() {
    showMarks($("context-mirror"), context.value);
    if (context.value.trim() && question.value.trim()) {
      run((signal) => answer(model.value, signal));
    } else {
      run.stop();
    }
  }
}

async function answer(model, signal) {
  const body = { model, question: question.value.trim(), context: context.value, n_best: COUNT };
  const { answers } = await post("api/answer", body, signal);
  const found = answers.filter((one) => !one.no_answer && one.text);
  const items = found.map((one) => {
    const share = element("span", { class: "share", text: percent(one.probability) });
    const show = () => mark(one);
    const text = element("span", { text: one.text, dir: "auto" });
    return element("li", {}, element("button", { type: "button", onclick: show, onfocus: show }, text, share));
  });
  $("answers").replaceChildren(...items);
  $("answer-text").textContent = found.length ? found[0].text : "The text does not answer this question.";
  if (found.length) mark(found[0]);
}

// Mark an answer in the text. The server counts characters, and JavaScript parts of 16 bits.
function mark({ start, end, text }) {
  const characters = Array.from(context.value);
  const offset = characters.slice(0, start).join("").length;
  const length = characters.slice(start, end).join("").length;
  showMarks($("context-mirror"), context.value, [{ start: offset, end: offset + length, weight: 1 }]);
  for (const one of $("answers").querySelectorAll("button")) {
    one.toggleAttribute("aria-current", one.firstChild.textContent === text);
  }
}
