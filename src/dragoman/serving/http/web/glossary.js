// The glossary of the tab "Translate": its terms, one in each line, and where they stand in a text and its translation.

import { $, recall, remember } from "./dom.js";

const STORED = "dragoman-glossary";
const SEPARATOR = /\t+| *[=→] */u; // spreadsheets copy tabs; in a text field, the tab key moves the focus
const WEIGHT = 0.2; // of the mark of a term in the source

// Return [[source, target]] of the lines of the field. A line without a separator is not complete yet.
export function glossaryEntries() {
  const lines = $("glossary").value.split("\n").map((line) => line.trim());
  const cut = lines.map((line) => [line, SEPARATOR.exec(line)]).filter(([, separator]) => separator?.index);
  const pairs = cut.map(([line, { index, 0: all }]) => [line.slice(0, index), line.slice(index + all.length).trim()]);
  return [...new Map(pairs.map(([from, to]) => [from.trim(), to])).entries()];
}

export function startGlossary(onChange) {
  const field = $("glossary");
  field.value = recall(STORED) ?? "";
  $("glossary-details").open = Boolean(field.value.trim());
  const show = () => {
    const count = glossaryEntries().length;
    $("glossary-count").textContent = count ? `${count.toLocaleString("en")} ${count === 1 ? "term" : "terms"}` : "";
  };
  show();
  field.addEventListener("input", () => {
    remember(STORED, field.value);
    show();
    onChange();
  });
}

// Marks of the terms of sentences in the whole text, of which each sentence has the offset `start`.
export const termMarks = (sentences) =>
  sentences.flatMap(({ start, source, current }) =>
    (current.terms ?? []).map((term) => ({
      start: start + offset(source, term.start),
      end: start + offset(source, term.end),
      weight: WEIGHT,
    })),
  );

// The words of a translation that belong to a term, and the terms that it lacks.
export function termWords({ text, words, terms = [] }) {
  const found = new Set();
  const missing = [];
  const folded = text.toLowerCase();
  for (const term of terms) {
    const target = term.targets.find((one) => folded.includes(one.toLowerCase()));
    if (target === undefined) missing.push(term);
    else {
      const at = folded.indexOf(target.toLowerCase());
      for (const one of words) if (one.start < at + target.length && one.end > at) found.add(one);
    }
  }
  return { found, missing };
}

// Positions of the server count characters, and those of JavaScript 16-bit units.
const offset = (text, characters) => [...text].slice(0, characters).join("").length;
