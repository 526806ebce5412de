// Translations of sentences, of which each is asked for once.

import { post } from "./api.js";
import { withWords } from "./texts.js";

const SEARCH = { n_best: 4, beam_size: 5, split_sentences: false };
const CHUNK = 1500; // characters of a request, so that the translation of a long text appears part by part
const KEPT = 5000; // sentences whose translations are remembered
const remembered = new Map();

const keyOf = (text, asked) => JSON.stringify([asked, text]);

// The translations of a sentence, best first, with the words of each; undefined where they are not known yet.
export const translationsOf = (text, asked) => remembered.get(keyOf(text, asked));

// Ask for the translations of those sentences whose translations are not known. Yields after each answer. `asked` has the
// languages, the entries of a glossary, and whether placeholders are protected.
export async function* translateNew(sentences, asked, signal) {
  const { glossary, ...options } = asked;
  const control = glossary.length ? { glossary: { entries: glossary } } : {};
  const texts = new Set(sentences.map((one) => one.text));
  const missing = [...texts].filter((one) => one && !translationsOf(one, asked));
  for (const chunk of chunksOf(missing)) {
    const { results } = await post("api/translate", { texts: chunk, ...options, ...SEARCH, ...control }, signal);
    results.forEach(({ translations, terms }, at) => {
      const made = translations.map((one) => ({ ...withWords(one, asked.target), terms }));
      remembered.set(keyOf(chunk[at], asked), made);
    });
    yield chunk;
  }
  for (const key of remembered.keys()) if (remembered.size > KEPT) remembered.delete(key);
}

function* chunksOf(texts) {
  let chunk = [];
  let size = 0;
  for (const one of texts) {
    if (chunk.length && size + one.length > CHUNK) {
      yield chunk;
      chunk = [];
      size = 0;
    }
    chunk.push(one);
    size += one.length;
  }
  if (chunk.length) yield chunk;
}
