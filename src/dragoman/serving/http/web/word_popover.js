// What belongs to one word of a translation: the source words it attended to, and other continuations from there.

import { post } from "./api.js";
import { $, arrowKeys, element, latest, percent } from "./dom.js";
import { showMarks } from "./marks.js";
import { locate, overlapping, withWords } from "./texts.js";

const COUNT = 10; // continuations asked for
const SHOWN = 6; // continuations shown
const VISIBLE = 0.015; // probability from which a bar is shown
const FAINT = 0.03; // weights below it are not marked
const NAMED = 4; // source words that are named
let shown = null;

export function closePopover({ focus = false } = {}) {
  if (!shown) return;
  const { anchor, box, stop } = shown;
  shown = null;
  stop();
  box.remove();
  anchor.setAttribute("aria-expanded", "false");
  showMarks($("mirror"), $("source").value);
  if (focus) anchor.focus();
}

// Open the popover of a word at its element `anchor` in `pane`. `onUse` gets the translation that is picked.
export function openPopover(opened) {
  const { sentence, word, anchor, pane } = opened;
  const isSame = shown?.anchor === anchor;
  closePopover();
  if (isSame) return;
  const list = element("ul", { class: "choices" });
  const attended = element("p", { class: "attended", "aria-live": "polite", text: "…" });
  const [listError, attendedError] = [0, 1].map(() => element("p", { class: "error", role: "alert" }));
  const label = { class: "popover", role: "dialog", "aria-labelledby": "popover-title", tabindex: -1 };
  const box = element("div", label, titleOf(sentence, word), list, listError, attended, attendedError);
  const alternatives = latest({ error: listError });
  const explain = latest({ error: attendedError });
  shown = {
    anchor,
    box,
    stop: () => {
      alternatives.stop();
      explain.stop();
    },
  };
  anchor.setAttribute("aria-expanded", "true");
  pane.append(box);
  place(box, anchor, pane);
  box.focus({ preventScroll: true });
  keys(box);
  alternatives(async (signal) => {
    await showAlternatives(list, opened, signal);
    box.scrollIntoView({ block: "nearest" });
    if (document.activeElement === box) list.querySelector("button")?.focus({ preventScroll: true });
  });
  explain((signal) => showAttention(attended, opened, signal));
}

function titleOf({ current, languages }, word) {
  const text = current.text.slice(word.start, word.end).replace(/^\p{P}+(?=.)|(?<=.)\p{P}+$/gu, "");
  const share = word.logProb === null ? "" : ` ${percent(Math.exp(word.logProb))}`;
  const quoted = element("q", { text, lang: languages.target });
  return element(
    "h2",
    { id: "popover-title", dir: "auto" },
    "Instead of ",
    quoted,
    element("span", { class: "quiet-text", text: share }),
  );
}

const bodyOf = ({ source, languages }) => ({ text: source, ...languages });

// List the translations that begin with the words before this one, and continue otherwise.
async function showAlternatives(list, { sentence, word, onUse }, signal) {
  const { current, languages, placeholders } = sentence;
  const prefix = current.text.slice(0, word.start);
  const body = { ...bodyOf(sentence), target_prefix: prefix.trimEnd(), count: COUNT, placeholders };
  const { alternatives } = await post("api/alternatives", body, signal);
  const found = new Map();
  for (const one of alternatives) {
    const { text } = one.translation;
    const isWhole = text.startsWith(prefix) || text === prefix.trimEnd(); // or else the word before is continued
    if (isWhole && !found.has(text)) found.set(text, { ...one, share: shareOf(one, word, languages.target) });
  }
  if (![...found.keys()].some((text) => text !== current.text)) throw new Error("The model knows no other word here.");
  const ordered = [...found.values()].sort((one, other) => other.share - one.share);
  const items = ordered.slice(0, SHOWN).map((one, at) => {
    const isCurrent = one.translation.text === current.text;
    const onclick = () => {
      closePopover();
      onUse(isCurrent ? current : continued(one, sentence, word));
    };
    const properties = { type: "button", tabindex: at ? -1 : 0, "aria-current": isCurrent ? "true" : null, onclick };
    return element("li", {}, element("button", properties, ...continuation(one, prefix, languages.target)));
  });
  list.replaceChildren(...items);
}

// Mark the source words that this one attended to, and name those with the greatest weights.
async function showAttention(attended, { sentence, word, text }, signal) {
  const { source, languages, current } = sentence;
  const explained = await post("api/explain", { ...bodyOf(sentence), translation: current.text }, signal);
  const weights = weightsOf(explained, current.text, word);
  const places = locate(explained.source_words, source);
  const found = explained.source_words
    .map((name, at) => ({ name, place: places[at], weight: weights[at] }))
    .filter((one) => one.weight >= FAINT);
  const isPivot = explained.source_text !== source; // the model read the translation of another one
  if (!isPivot)
    showMarks(
      $("mirror"),
      text,
      found.flatMap((one) => markOf(one, sentence.start)),
    );
  const names = found
    .sort((one, other) => other.weight - one.weight)
    .slice(0, NAMED)
    .flatMap(({ name, weight }, at) => [at ? ", " : "", element("b", { text: name }), ` ${percent(weight)}`]);
  const pivot = isPivot ? ` in “${explained.source_text}”, from which this was translated` : "";
  attended.replaceChildren(...(names.length ? ["Attended to ", ...names, pivot] : ["It attended to no single word."]));
}

const markOf = ({ place, weight }, offset) =>
  place ? [{ start: offset + place.start, end: offset + place.end, weight }] : [];

// The probability of the word of an alternative that begins where `word` does: of its first token, which the search was
// forced to write, and of its other tokens.
function shareOf({ probability, translation }, word, language) {
  const others = withWords(translation, language).words.find((one) => one.start === word.start)?.logProb ?? 0;
  return probability * Math.exp(others);
}

// The translation of an alternative; words before the picked one were forced, and keep their probabilities.
function continued({ share, translation }, { current, languages }, word) {
  const made = withWords(translation, languages.target);
  for (const one of made.words) {
    if (one.start < word.start) one.logProb = current.words.find((other) => other.start === one.start)?.logProb ?? null;
    if (one.start === word.start && one.logProb !== null) one.logProb = Math.log(share);
  }
  return made;
}

// The mean attention of the target words that a word of the text overlaps, to each source word.
function weightsOf({ attention, source_words, target_words }, text, word) {
  const places = locate(
    target_words.map((one) => one.text),
    text,
  );
  const rows = attention.filter((_, at) => places[at] && overlapping([places[at]], [1], word));
  return source_words.map((_, column) => rows.reduce((sum, row) => sum + row[column], 0) / Math.max(rows.length, 1));
}

// What a continuation shows: its next word and the rest, its probability, and a bar of that length.
function continuation({ share, translation: { text } }, prefix, language) {
  const [next, rest] = /^(\S*)(.*)$/s.exec(text.slice(prefix.length)).slice(1);
  const strong = element("strong", { text: next || "(end)" });
  const words = element(
    "span",
    { dir: "auto", lang: language },
    strong,
    element("span", { class: "rest", text: rest }),
  );
  const parts = [words, element("span", { class: "share", text: percent(share) })];
  if (share >= VISIBLE) parts.push(element("span", { class: "meter", "--share": share.toFixed(4) }));
  return parts;
}

function place(box, anchor, pane) {
  const [rect] = anchor.getClientRects();
  const frame = pane.getBoundingClientRect();
  const left = Math.min(Math.max(rect.left - frame.left - 12, 12), Math.max(frame.width - box.offsetWidth - 12, 8));
  box.style.left = `${left}px`;
  box.style.top = `${rect.bottom - frame.top + 8}px`;
}

function keys(box) {
  arrowKeys(box, () => [...box.querySelectorAll("button")], { vertical: true });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      closePopover({ focus: true });
    }
    if (event.key === "ArrowDown" && document.activeElement === box) box.querySelector("button")?.focus();
  });
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !box.contains(relatedTarget)) closePopover();
  });
}

document.addEventListener("pointerdown", ({ target }) => {
  if (shown && !shown.box.contains(target) && !target.closest?.(".words [role=button]")) closePopover();
});
