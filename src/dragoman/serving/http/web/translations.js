// Translations of sentences, of which each is asked for once.

import { post } from "./api.js";
import { withWords } from "./texts.js";

const SEARCH = { n_best: 4, beam_size: 5, split_sentences: false };
const CHUNK = 1500; // characters of a request, so that the translation of a long text appears part by part
const KEPT = 5000; // sentences whose translations are remembered
const remembered = new Map();

const keyOf = (text, languages) => JSON.stringify([languages, text]);

// The translations of a sentence, best first, with the words of each; undefined where they are not known yet.
export const translationsOf = (text, languages) => remembered.get(keyOf(text, languages));

// Ask for the translations of those sentences whose translations are not known. Yields after each answer.
export async function* translateNew(sentences, languages, signal) {
  const texts = new Set(sentences.map((one) => one.text));
  const missing = [...texts].filter((one) => one && !translationsOf(one, languages));
  for (const chunk of chunksOf(missing)) {
    const { results } = await post("api/translate", { texts: chunk, ...languages, ...SEARCH }, signal);
    results.forEach(({ translations }, at) => {
      const made = translations.map((one) => withWords(one, languages.target));
      remembered.set(keyOf(chunk[at], languages), made);
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
