// Marks in a text field: a transparent copy of its text below it, in which words have a background.

import { element } from "./dom.js";

const lasting = new WeakMap(); // marks of each mirror that are shown where no others are asked for

// Set the marks that `mirror` has until they are set again, and show them.
export function setMarks(mirror, text, marks) {
  lasting.set(mirror, marks);
  showMarks(mirror, text);
}

// Show `text` in `mirror`, the copy below its field, with marks {start, end, weight}; weights are from 0 to 1.
export function showMarks(mirror, text, marks = lasting.get(mirror) ?? []) {
  const parts = [];
  let end = 0;
  for (const { start, end: next, weight } of marks) {
    if (start < end) continue;
    const share = Math.sqrt(weight).toFixed(3); // so that small weights are visible
    parts.push(text.slice(end, start), element("mark", { text: text.slice(start, next), "--weight": share }));
    end = next;
  }
  mirror.replaceChildren(...parts, `${text.slice(end)}\u200b`); // with the height of an empty last line
}
