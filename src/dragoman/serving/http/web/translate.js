// The tab "Translate": the translation of what is typed, sentence by sentence, and other translations of a sentence.

import { detect } from "./api.js";
import { $, arrowKeys, element, latest, percent, seconds } from "./dom.js";
import { glossaryEntries, startGlossary, termMarks, termWords } from "./glossary.js";
import { LanguageChoice } from "./languages.js";
import { setMarks } from "./marks.js";
import { newWords, sentencesOf } from "./texts.js";
import { translateNew, translationsOf } from "./translations.js";
import { closePopover, openPopover } from "./word_popover.js";

const DELAY = 220; // milliseconds without typing before a request
const DOUBTFUL = 0.5; // words below this probability are underlined
const LONG = 220; // characters from which the text is smaller
const SHOWN = 40; // characters of a sentence that a warning is about
const NONE = [{ text: "", words: [] }]; // of white space, and of sentences that are not translated yet
let choice = null;
let limit = Infinity; // characters of a text
let placeholders = false; // whether all translators can protect them
let sentences = [];
let active = null;
const source = $("source");
const output = $("translation");
const pane = $("output-pane");
const run = latest({
  delay: DELAY,
  error: $("translate-error"),
  onBusy: (isBusy) => pane.setAttribute("aria-busy", isBusy),
});

export function startTranslate({ languages, models, settings }) {
  limit = settings.charLimit;
  const onChange = () => update({ soon: true });
  const onSwap = () => {
    source.value = translation() || source.value;
    onChange();
  };
  placeholders = models.filter((one) => one.kind === "translator").every((one) => one.protects_placeholders);
  choice = new LanguageChoice($("translate-languages"), { languages, models, onChange, onSwap });
  source.addEventListener("input", () => update());
  startGlossary(() => update());
  $("clear").addEventListener("click", () => {
    source.value = "";
    update({ soon: true });
    source.focus();
  });
  $("copy").addEventListener("click", copy);
  $("shade").addEventListener("change", shade);
  output.addEventListener("click", (event) => getSelection().isCollapsed && open(event.target));
  output.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(event.target);
    }
  });
  arrowKeys(output, () => [...output.querySelectorAll("[role=button]")]);
  shade();
  update({ soon: true });
}

export const sentenceInUse = () => active?.source;
const translation = () => sentences.map((one) => one.current.text + one.space).join("");

function update(options) {
  const text = source.value;
  closePopover();
  setMarks($("mirror"), text, []);
  $("clear").hidden = !text;
  showCount(text);
  document.querySelector(".panes").classList.toggle("long", text.length > LONG);
  if (text.trim() && text.length <= limit) return run((signal) => translate(text, signal), options);
  run.stop();
  choice.showDetected(null);
  show([]);
  return undefined;
}

// Show how many characters a text has, of those that it may have.
function showCount(text) {
  const [count, most] = [text.length, limit].map((one) => one.toLocaleString("en"));
  $("characters").textContent = text && `${count} of ${most} characters`;
  $("characters").classList.toggle("error", text.length > limit);
}

async function translate(text, signal) {
  const since = performance.now();
  if (!choice.source) choice.showDetected((await detect(text, signal))[0]?.language ?? null);
  const languages = { source: choice.known, target: choice.target, model: choice.model };
  const cut = sentencesOf(text, languages.source);
  const asked = { ...languages, glossary: glossaryEntries(), placeholders };
  let time = "";
  for await (const _ of translateNew(cut, asked, signal)) {
    time = seconds(since);
    show(withTranslations(cut, languages, asked), time);
  }
  if (!time) show(withTranslations(cut, languages, asked));
}

// Sentences with their positions and translations. One that was shown before keeps the translation that was chosen.
function withTranslations(cut, languages, asked) {
  const before = new Map(sentences.map((one) => [one.options, one]));
  let start = 0;
  return cut.map(({ text, space }) => {
    const options = translationsOf(text, asked) ?? NONE;
    const current = options === NONE ? NONE[0] : (before.get(options)?.current ?? options[0]);
    const made = { source: text, space, start, options, current, languages, placeholders };
    start += text.length + space.length;
    return made;
  });
}

function show(found, time = "") {
  sentences = found;
  active = found.length ? (found.find((one) => one.source === active?.source) ?? found.at(-1)) : null;
  draw();
  setMarks($("mirror"), source.value, termMarks(found));
  $("translate-status").textContent = problemOf(found) ?? time;
  $("copy").hidden = $("shade-label").hidden = !found.length;
  $("translate-hint").hidden = found.length > 0;
}

// What is wrong with the translations that are shown.
function problemOf(found) {
  const missing = found.flatMap((one) => termWords(one.current).missing.map((term) => term.text));
  if (missing.length) return `Without the translation of ${missing.map((one) => `“${one}”`).join(", ")}.`;
  const isCut = found.some((one) => one.current.truncated);
  if (isCut) return "The translation reached the length limit and was cut off.";
  const doubtful = found.find((one) => one.current.warnings?.length);
  if (!doubtful) return null;
  const { source, current } = doubtful;
  const start = source.length > SHOWN ? `${source.slice(0, SHOWN).trimEnd()}…` : source;
  return found.length > 1 ? `${start} – ${current.warnings[0].message}` : current.warnings[0].message;
}

// Draw the words; those of `changed`, a sentence, that are not in its translation `before` are shown as new.
function draw(changed = null, before = null) {
  const target = choice.target;
  output.lang = target;
  source.lang = choice.known ?? "";
  output.replaceChildren(
    ...sentences.flatMap((sentence) => {
      const fresh = sentence === changed ? newWords(before, sentence.current) : new Set();
      return [...drawSentence(sentence, fresh), sentence.space];
    }),
  );
  output.querySelector("[role=button]")?.setAttribute("tabindex", "0");
  if ($("translation-text").textContent !== translation()) $("translation-text").textContent = translation();
  $("translation-text").lang = target;
  drawOthers();
}

function* drawSentence(sentence, fresh) {
  const { text, words } = sentence.current;
  const { found: ofTerms } = termWords(sentence.current);
  let end = 0;
  for (const word of words) {
    if (word.start > end) yield text.slice(end, word.start);
    end = word.end;
    const share = word.logProb === null ? null : Math.exp(word.logProb);
    const kinds = [share !== null && share < DOUBTFUL && "doubtful", fresh.has(word) && "changed", ofTerms.has(word) && "term"]
      .filter(Boolean)
      .join(" ");
    const made = element("span", {
      role: "button",
      tabindex: -1,
      "aria-haspopup": "dialog",
      "aria-expanded": "false",
      class: kinds || null,
      text: text.slice(word.start, end),
      title: share === null ? null : `Probability ${percent(share)}`,
      "--doubt-share": share === null ? 0 : (1 - share).toFixed(3),
    });
    made.chosen = { sentence, word };
    yield made;
  }
  if (end < text.length) yield text.slice(end);
}

function drawOthers() {
  const shown = new Set([active?.current.text.trim()]);
  const others = (active?.options ?? []).filter(({ text }) => !shown.has(text.trim()) && shown.add(text.trim()));
  $("others").hidden = !others.length;
  $("others-of").textContent = sentences.length > 1 && active ? `of “${active.source.trim()}”` : "";
  $("others-list").replaceChildren(
    ...others.map((one) => {
      const fresh = newWords(active.current, one);
      const parts = [];
      let end = 0;
      for (const word of one.words) {
        const shown = one.text.slice(word.start, word.end);
        parts.push(one.text.slice(end, word.start), fresh.has(word) ? element("strong", { text: shown }) : shown);
        end = word.end;
      }
      const text = element("span", { dir: "auto", lang: active.languages.target }, ...parts, one.text.slice(end));
      return element("li", {}, element("button", { type: "button", onclick: () => use(active, one) }, text));
    }),
  );
}

// Replace the translation of a sentence by another one, and show where they differ.
function use(sentence, option) {
  const before = sentence.current;
  sentence.current = option;
  active = sentence;
  draw(sentence, before);
  (output.querySelector(".changed") ?? output.querySelector("[role=button]"))?.focus({ preventScroll: true });
}

function open(word) {
  if (!word.chosen) return;
  const { sentence } = word.chosen;
  if (active !== sentence) {
    active = sentence;
    drawOthers();
  }
  output.querySelectorAll("[tabindex='0']").forEach((one) => {
    one.tabIndex = -1;
  });
  word.tabIndex = 0;
  openPopover({ ...word.chosen, anchor: word, pane, text: source.value, onUse: (option) => use(sentence, option) });
}

function shade() {
  pane.classList.toggle("shaded", $("shade").checked);
}

async function copy() {
  try {
    await navigator.clipboard.writeText(translation());
  } catch {
    // without HTTPS there is no clipboard: mark the text for the user
    getSelection().selectAllChildren(output);
    $("copy").textContent = "Marked";
    return;
  }
  $("copy").textContent = "Copied";
  setTimeout(() => {
    $("copy").textContent = "Copy";
  }, 1500);
}
