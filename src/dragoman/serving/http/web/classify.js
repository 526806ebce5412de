// The tab "Classify": the probabilities of labels, as the text is typed.

import { post } from "./api.js";
import { $, element, latest, percent } from "./dom.js";
import { modelChoice } from "./model_choice.js";

const DELAY = 200; // milliseconds without typing before a request
const SHOWN = 12; // labels

export function startClassify({ models }) {
  const text = $("classified");
  const run = latest({ delay: DELAY, error: $("classify-error"), clear: () => $("labels").replaceChildren() });
  const model = modelChoice(
    $("classify-models"),
    models.filter((one) => one.kind === "classifier"),
    update,
  );
  text.addEventListener("input", update);

  function update() {
    if (!text.value.trim()) {
      run.stop();
      return;
    }
    run(async (signal) => {
      const {
        results: [found],
      } = await post("api/classify", { texts: text.value.trim(), model: model.value }, signal);
      show(found);
    });
  }
}

function show({ probabilities }) {
  const ranked = Object.entries(probabilities).sort((one, other) => other[1] - one[1]);
  $("label-text").textContent = `${ranked[0][0]}, ${percent(ranked[0][1])}`;
  $("labels").replaceChildren(
    ...ranked.slice(0, SHOWN).map(([label, share], at) => {
      const meter = element("div", { class: "meter", "--share": share.toFixed(4) });
      return element(
        "div",
        { class: at ? null : "first" },
        element("dt", { text: label, dir: "auto" }),
        element("dd", { "aria-hidden": "true" }, meter),
        element("dd", { text: percent(share) }),
      );
    }),
  );
}
