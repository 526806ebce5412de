// Sentences and words of a text, and where pieces of it stand. Positions are offsets of JavaScript strings.

const SPACED_END = /(?<=\s[.!?]\s+)(?=\S)/u; // corpora have spaces before their periods
// Abbreviations do not end a sentence: names (Dr., J.), letters with periods (e.g.), and frequent words.
const ABBREVIATION =
  /(^|[\s(])(\p{Lu}\p{L}{0,3}|\p{L}(\.\p{L})*|approx|bzw|ca|cf|dept|etc|evtl|ggf|no|nr|pp?|usw|vol|vs)\.$/u;

// Cut a text into sentences of its lines: [{text, space}], whose texts and following white space join to the whole.
export function sentencesOf(text, language) {
  const segmenter = new Intl.Segmenter(valid(language), { granularity: "sentence" });
  const found = [];
  for (const line of text.split(/(?<=\n)/)) {
    const segments = [...segmenter.segment(line)].flatMap(({ segment }) => segment.split(SPACED_END));
    for (const segment of segments) {
      const [, before, body, space] = /^(\s*)(.*?)(\s*)$/s.exec(segment);
      const last = found.at(-1);
      if (last && !body) last.space += before;
      else if (last && !before && ABBREVIATION.test(last.text) && !last.space.includes("\n")) {
        last.text += last.space + body;
        last.space = space;
      } else {
        if (before) found.push({ text: "", space: before });
        if (body) found.push({ text: body, space });
      }
    }
  }
  return found;
}

// Return [{start, end}] of the words of a text: between white space, or by dictionary in scripts without spaces.
export function wordsOf(text, language) {
  if (
    !/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Khmer}\p{Script=Lao}\p{Script=Myanmar}]/u.test(
      text,
    )
  ) {
    return [...text.matchAll(/\S+/gu)].map((one) => ({ start: one.index, end: one.index + one[0].length }));
  }
  const segmenter = new Intl.Segmenter(valid(language), { granularity: "word" });
  return [...segmenter.segment(text)]
    .filter(({ segment }) => segment.trim())
    .map(({ index, segment }) => ({ start: index, end: index + segment.length }));
}

// Return where pieces are in a text, one after the other: {start, end}, or null for a piece that is not found.
export function locate(pieces, text) {
  const folded = fold(text);
  let from = 0;
  return pieces.map((piece) => {
    const wanted = fold(piece.replace(/^[▁Ġ]|^##|@@$|<\/w>$|⁇\s*/gu, "")).trim();
    if (!wanted) {
      // a space by itself belongs to the word that follows
      const start = from + /^\s*/.exec(text.slice(from))[0].length;
      return { start, end: start + 1 };
    }
    const at = folded.indexOf(wanted, from);
    if (at < 0 || at > from + 24) return null; // a piece farther away is another occurrence
    from = at + wanted.length;
    return { start: at, end: from };
  });
}

// The sum of `values` of the pieces that overlap {start, end}; null if there is none.
export function overlapping(places, values, { start, end }) {
  const found = values.filter((_, at) => places[at] && places[at].start < end && places[at].end > start);
  return found.length ? found.reduce((sum, value) => sum + value, 0) : null;
}

// A translation of the server with the words of its text and their log-probabilities (null where they are unknown).
export function withWords({ text, tokens, token_log_probs: logProbs, truncated, quality }, language) {
  const places = locate(tokens, text);
  const ofTokens = logProbs.slice(0, tokens.length);
  return {
    text,
    truncated,
    warnings: quality?.warnings ?? [],
    words: wordsOf(text, language).map((one) => ({ ...one, logProb: overlapping(places, ofTokens, one) })),
  };
}

// Return the words of `after` that are not in a longest common subsequence with the words of `before`.
export function newWords(before, after) {
  const [old, now] = [before, after].map(({ text, words }) => words.map((one) => text.slice(one.start, one.end)));
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  const found = new Set();
  for (let i = 0, j = 0; j < now.length;) {
    if (old[i] === now[j]) {
      i++;
      j++;
    } else if (i < old.length && common[i + 1][j] >= common[i][j + 1]) i++;
    else found.add(after.words[j++]);
  }
  return found;
}

// Lower case, unless that changes the length, as of İ.
function fold(text) {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text;
}

function valid(language) {
  try {
    return Intl.getCanonicalLocales(language ?? "en")[0];
  } catch {
    return "en";
  }
}
