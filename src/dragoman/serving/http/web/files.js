// The tab "Files": translate files, one after the other, and offer their translations.

import { translateFile } from "./api.js";
import { $, element } from "./dom.js";
import { LanguageChoice } from "./languages.js";

let choice = null;
let queue = Promise.resolve();

export function startFiles({ languages, models, settings }) {
  choice = new LanguageChoice($("files-languages"), { languages, models: [], onChange() {} });
  const formats = settings.supportedFilesFormat;
  $("file").accept = formats.join(",");
  $("formats-count").textContent = `${formats.length} formats`;
  $("formats").textContent = formats.map((one) => one.replace(/^\./, "")).join(", ");
  $("file").addEventListener("change", () => {
    add($("file").files);
    $("file").value = "";
  });
  const drop = $("drop");
  const over = (isOver) => (event) => {
    event.preventDefault();
    drop.classList.toggle("over", isOver);
  };
  drop.addEventListener("dragover", over(true));
  drop.addEventListener("dragleave", over(false));
  drop.addEventListener("drop", (event) => {
    over(false)(event);
    add(event.dataTransfer.files);
  });
}

export const openFiles = () => choice.recall();

function add(files) {
  const from = choice.source ?? "auto";
  const to = choice.target;
  for (const file of files) {
    const state = element("span", { class: "quiet-text", text: "Waiting" });
    const item = element("li", {}, element("span", { class: "name", text: file.name, dir: "auto" }), state);
    $("jobs").prepend(item);
    queue = queue.then(() => translate(file, from, to, item, state));
  }
}

async function translate(file, from, to, item, state) {
  const stop = new AbortController();
  const cancel = element("button", {
    type: "button",
    class: "quiet",
    text: "Cancel",
    "aria-label": `Cancel ${file.name}`,
    onclick: () => stop.abort(),
  });
  item.append(cancel);
  state.textContent = `Translating into ${choice.name(to)}`;
  state.classList.add("working");
  try {
    const { address, toReview } = await translateFile(file, from, to, stop.signal);
    const save = element("a", {
      class: "button",
      href: address,
      download: renamed(file.name, to),
      text: "Save translation",
      "aria-label": `Save the translation of ${file.name}`,
    });
    save.addEventListener(
      "click",
      () => {
        state.textContent = `Saved${reviewed(toReview)}`;
        setTimeout(() => save.remove(), 500);
      },
      { once: true },
    );
    state.textContent = `Translated into ${choice.name(to)}${reviewed(toReview)}`;
    item.append(save);
  } catch (error) {
    state.textContent = error.name === "AbortError" ? "Canceled" : "Not translated";
    if (error.name !== "AbortError") item.append(element("p", { class: "error", text: error.message }));
  } finally {
    state.classList.remove("working");
    cancel.remove();
  }
}

// How many texts of a translated file a person should look at.
const reviewed = (count) => (count ? `, ${count.toLocaleString("en")} ${count > 1 ? "texts" : "text"} to review` : "");

// `notes.txt` becomes `notes.de.txt`.
const renamed = (name, language) => name.replace(/(\.[^.]*)?$/, `.${language}$1`);
