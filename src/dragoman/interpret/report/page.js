const data = JSON.parse($("data").textContent);
const KINDS = {
  encoder: ["encoder", "Words look at one another, before and behind them"],
  masked: ["masked", "Words look at those before them, and what comes later is hidden"],
  cross: ["cross", "Steps of the translation look at source words"],
};
const STATISTICS = {
  entropy: ["entropy", "How widely a head looks, in nats: 0 is one word, more is more words alike.", 2],
  distance: ["distance", "How many places away a head looks, on average.", 2],
  on_punctuation: ["on punctuation", "The share of its weights that a head gives to punctuation.", 2],
  on_end: ["on the end symbol", "The share of its weights that a head gives to the end symbol, often a place to rest.", 2],
  worth: ["without it", "What the log-probability of this translation changes by, in nats, when the head is left out.", 3],
};
// What the first section and that of predictions say, by what the network was asked for.
const POINT = "Point at a word to see where the network looks from there, click to keep it. ";
const TASKS = {
  translation: [`${POINT}Source words are shaded by the attention chosen below, words written so far by the masked one.`,
    "What each step might have written"],
  continuation: [`${POINT}The prompt stands above, what the network goes on with below it.`, "What each step might have written"],
  label: [`${POINT}The label that was found stands below the text; where one place decides, it shows what that looks at.`,
    "What the text might be"],
  tags: [`${POINT}Below the text are the labels of its words, one by one.`, "What each word might be"],
  answer: [`${POINT}Below question and text stand the first and the last token of the answer.`, "Where the answer begins and ends"],
};
const STEPS = {
  translation: (place) => `Step ${place + 1}`,
  continuation: (place) => `Step ${place + 1}`,
  label: () => "The text",
  tags: (place) => sentence().source_words.texts[place],
  answer: (place) => ["First token", "Last token"][place],
};
const state = { system: 0, sentence: 0, kind: "cross", layer: 0, head: "mean", mask: false, step: null, kept: false,
  statistic: "entropy", method: 0, attribution: 0 };

const system = () => data.systems[state.system];
const sentence = () => system().sentences[state.sentence];
const readable = (tokens) => tokens.map(shown);
const sides = (one, kind) => ({
  encoder: [one.source, one.source],
  masked: [one.read, one.read],
  cross: [one.target, one.source],
})[kind];

function tell(id, ...parts) {
  const nodes = parts.map((part) => (Array.isArray(part)
    ? Object.assign(document.createElement("b"), { textContent: part[0] }) : document.createTextNode(part)));
  $(id).replaceChildren(...nodes);
}

// Attention: numbers by row and column, the mean of all heads made once.
const means = new Map();
function meanOfHeads(packed, layer) {
  const key = `${layer}`, known = means.get(packed) || means.set(packed, new Map()).get(packed);
  if (known.has(key)) return known.get(key);
  const weights = array(packed), [, heads, rows, columns] = weights.shape;
  // Heads that pruning took from a layer look at nothing.
  const looks = (h) => [...Array(columns).keys()].some((c) => weights.at(layer, h, 0, c) > 0);
  const there = [...Array(heads).keys()].filter(looks);
  const mean = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    let sum = 0;
    for (const h of there) sum += weights.at(layer, h, r, c);
    mean[r * columns + c] = sum / there.length;
  }
  known.set(key, (r, c) => mean[r * columns + c]);
  return known.get(key);
}
function weight(one, kind, layer, head) {
  if (kind === "encoder" && head === "rollout") {
    const rolled = array(one.rollout);
    return (r, c) => rolled.at(layer, r, c);
  }
  if (head === "mean") return meanOfHeads(one.weights[kind], layer);
  const weights = array(one.weights[kind]);
  return (r, c) => weights.at(layer, head, r, c);
}
const map = grid($("map"), (here, view) => {
  if (!here) {
    tell("attention-readout", "Point at the map: a row looks at its columns. The stronger the colour, the more.");
    if (!state.kept) step(null);
    return;
  }
  const [r, c] = here;
  tell("attention-readout", [view.rows[r]], " looks at ", [view.columns[c]], `: ${view.value(r, c).toFixed(4)}`);
  if (!state.kept) step(pointedAt(r));
});
// The word that a row of the map is, among those of the source or of what was written.
function pointedAt(row) {
  const one = sentence();
  if (one.task === "translation") return { side: state.kind === "encoder" ? "source" : "target", place: row };
  if (one.task !== "continuation") return { side: "source", place: row };
  const written = row - one.source.length;
  return written < 0 ? { side: "source", place: row } : { side: "target", place: written, row };
}
function showAttention() {
  const one = sentence();
  const there = Object.keys(KINDS).filter((kind) => one.weights[kind]);
  $("attention").hidden = $("statistics").hidden = !there.length;
  if (!there.length) return;
  if (!there.includes(state.kind)) state.kind = there[there.length - 1];
  const [layers, heads] = array(one.weights[state.kind]).shape;
  state.layer = Math.min(state.layer, layers - 1);
  if (typeof state.head === "number" && state.head >= heads) state.head = "mean";
  if (state.head === "rollout" && (state.kind !== "encoder" || !one.rollout)) state.head = "mean";
  choices("kinds", "", there.map((kind) => [kind, ...KINDS[kind]]), state.kind, (kind) => change({ kind }));
  const numbers = (count) => [...Array(count).keys()].map((n) => [n, String(n + 1)]);
  choices("layers", "layer", numbers(layers), state.layer, (layer) => change({ layer }));
  const extra = state.kind === "encoder" && one.rollout ? [["rollout", "rollout"]] : [];
  choices("heads", "head", [["mean", "mean"], ...numbers(heads), ...extra, ["mask", "mask"]],
    state.mask ? "mask" : state.head, (head) => change(head === "mask" ? { mask: true } : { head, mask: false }));
  const mixed = one.mixtures.includes(state.kind);
  $("maps").classList.toggle("long", array(one.weights[state.kind]).shape[3] > 34);
  const [rows, columns] = sides(one, state.kind);
  const masks = array(one.masks[state.kind]);
  const own = masks.shape[0] > 1 || masks.shape[1] > 1;
  const place = own ? [state.layer, typeof state.head === "number" ? state.head : 0] : [0, 0];
  const value = state.mask ? (r, c) => masks.at(...place, r, c) : weight(one, state.kind, state.layer, state.head);
  const width = array(one.weights[state.kind]).shape[3];
  map.show({
    rows: readable(rows),
    columns: mixed ? [...Array(width).keys()].map((n) => `mixture ${n + 1}`) : readable(columns),
    value,
    tone: (r, c) => (state.mask ? 0.45 * value(r, c) : shade(value(r, c))),
  });
  $("attention-note").textContent = state.mask ? `The mask: what each row may see, whatever it looks at${own ? `, in layer ${place[0] + 1}, head ${place[1] + 1}` : ""}.`
    : `${KINDS[state.kind][1]}. The shade is the root of the weight, so that small ones can be seen.`
      + (state.kind === "cross" ? " A step looks before it knows its word." : "");
  thumbnails(one, layers, heads);
}
let tiles = null;
const pictures = new Map();
function drawnOnce(packed, layer, head) {
  const key = `${layer} ${head} ${document.documentElement.dataset.theme}`;
  const known = pictures.get(packed) || pictures.set(packed, new Map()).get(packed);
  const weights = array(packed), [, , rows, columns] = weights.shape;
  if (!known.has(key)) known.set(key, picture(rows, columns, (r, c) => shade(weights.at(layer, head, r, c))));
  return known.get(key);
}
function thumbnails(one, layers, heads) {
  const canvas = $("thumbnails"), across = heads, gap = 10;
  const tile = Math.max(26, Math.min(120, Math.floor((room(canvas) - 40) / across) - gap));
  const pen = sized(canvas, 40 + across * (tile + gap), 22 + layers * (tile + gap));
  tiles = { tile, gap, layers, heads };
  pen.font = `12px ${FONT}`;
  for (let layer = 0; layer < layers; layer++) {
    pen.fillStyle = styled("--quiet");
    pen.fillText(String(layer + 1), 12, 22 + layer * (tile + gap) + tile / 2);
    for (let head = 0; head < heads; head++) {
      const x = 32 + head * (tile + gap), y = 20 + layer * (tile + gap);
      if (!layer) { pen.fillStyle = styled("--quiet"); pen.fillText(String(head + 1), x + tile / 2 - 3, 9); }
      const small = drawnOnce(one.weights[state.kind], layer, head);
      pen.imageSmoothingEnabled = small.width > tile;
      pen.drawImage(small, x, y, tile, tile);
      const chosen = layer === state.layer && (head === state.head || state.head === "mean");
      pen.strokeStyle = chosen ? accent(1) : styled("--line");
      pen.lineWidth = chosen ? 2 : 1;
      pen.strokeRect(x - 1, y - 1, tile + 2, tile + 2);
    }
  }
}
$("thumbnails").addEventListener("click", (event) => {
  const box = event.target.getBoundingClientRect(), step = tiles.tile + tiles.gap;
  const head = Math.floor((event.clientX - box.left - 32) / step), layer = Math.floor((event.clientY - box.top - 20) / step);
  if (head >= 0 && layer >= 0 && head < tiles.heads && layer < tiles.layers) change({ layer, head, mask: false });
});

// The pair of sentences as words to point at.
function tokens(id, list, side) {
  $(id).replaceChildren(...list.map((token, place) => {
    const one = button(shown(token), false, () => {
      const same = state.kept && state.step && state.step.side === side && state.step.place === place;
      state.kept = !same;
      step(same ? null : { side, place });
    });
    const apart = token.startsWith("▁") || (side === "target" && !["translation", "continuation"].includes(sentence().task));
    one.className = `${apart ? "first" : ""} ${/^<.+>$/.test(token) ? "symbol first" : ""}`;
    one.addEventListener("pointerenter", () => { if (!state.kept) step({ side, place }); });
    one.addEventListener("pointerleave", () => { if (!state.kept) step(null); });
    return one;
  }));
}
function step(next) {
  state.step = next;
  const one = sentence();
  const paint = (id, shares, here) => [...$(id).children].forEach((chip, place) => {
    const share = shares ? shares(place) : 0;
    chip.style.background = share > 0.02 ? accent((0.75 * shade(share)).toFixed(3)) : "";
    chip.dataset.weight = shares ? share.toFixed(4) : "";
    chip.classList.toggle("here", place === here);
    chip.setAttribute("aria-pressed", state.kept && place === here);
  });
  if (!next) { paint("source", null, -1); paint("target", null, -1); return; }
  const read = (kind) => (one.weights[kind] && !one.mixtures.includes(kind)
    ? weight(one, kind, Math.min(state.layer, array(one.weights[kind]).shape[0] - 1), kindHead(one, kind)) : null);
  if (one.task === "translation") {
    const from = read("encoder"), across = read("cross"), back = read("masked"), row = next.place;
    if (next.side === "source") {
      paint("source", from && ((place) => from(row, place)), row);
      paint("target", across && ((place) => across(place, row)), -1);
    } else {
      paint("source", across && ((place) => across(row, place)), -1);
      paint("target", back && ((place) => (place < row ? back(row, place + 1) : 0)), row);
    }
  } else {
    // One sequence looks at itself: the source, and behind it what was written, where something was.
    const inside = read(one.weights.encoder ? "encoder" : "masked"), written = one.source.length;
    // A word is what its row was about to write; pointed at in the map, it is what the row stands at.
    const row = next.side === "source" ? next.place : next.row ?? one.places[next.place];
    const seen = inside && row !== null;
    paint("source", seen && ((place) => inside(row, place)), next.side === "source" ? next.place : -1);
    const said = seen && one.task === "continuation" && next.side === "target";
    paint("target", said && ((place) => (written + place <= row ? inside(row, written + place) : 0)),
      next.side === "target" ? next.place : -1);
  }
  if (next.side === "target") distribution(next.place);
}
const kindHead = (one, kind) => (typeof state.head === "number" && state.head < array(one.weights[kind]).shape[1]
  ? state.head : "mean");

// Heads in numbers.
function showStatistics() {
  const one = sentence();
  const there = Object.keys(STATISTICS).filter((name) => name !== "worth" || Object.keys(one.heads).length);
  choices("statistic", "", there.map((name) => [name, STATISTICS[name][0]]), state.statistic,
    (statistic) => change({ statistic }));
  $("statistic-note").textContent = STATISTICS[state.statistic][1];
  const tables = Object.keys(KINDS).filter((kind) => one.weights[kind]).map((kind) => table(one, kind)).filter(Boolean);
  $("tables").replaceChildren(...tables);
}
function table(one, kind) {
  const [layers, heads] = array(one.weights[kind]).shape;
  const rows = one.statistics.filter((row) => row.kind === kind);
  const value = (layer, head) => (state.statistic === "worth" ? one.heads[kind]?.[layer]?.[head]
    : rows.find((row) => row.layer === layer && row.head === head)?.[state.statistic]);
  const all = [...Array(layers * heads).keys()].map((n) => value(Math.floor(n / heads), n % heads));
  if (all.every((number) => number === undefined || number === null)) return null;
  const largest = Math.max(1e-9, ...all.map((number) => Math.abs(number)));
  const made = document.createElement("table");
  made.createCaption().textContent = KINDS[kind][0];
  const top = made.insertRow();
  top.append(document.createElement("th"), ...[...Array(heads).keys()].map((head) =>
    Object.assign(document.createElement("th"), { textContent: `head ${head + 1}` })));
  for (let layer = 0; layer < layers; layer++) {
    const row = made.insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: `layer ${layer + 1}` }));
    for (let head = 0; head < heads; head++) {
      const number = value(layer, head);
      const chosen = kind === state.kind && layer === state.layer && head === state.head;
      const one = button(number.toFixed(STATISTICS[state.statistic][2]), chosen,
        () => change({ kind, layer, head, mask: false }));
      const alpha = 0.62 * Math.abs(number) / largest;
      one.style.background = accent(alpha.toFixed(3), number < 0 && state.statistic === "worth" ? "--less" : "--more");
      one.style.color = "var(--ink)";
      Object.assign(one.dataset, { kind, layer, head });
      row.insertCell().append(one);
    }
  }
  return made;
}

// Word alignment.
const links = grid($("links"), (here, view) => {
  if (!here) { tell("alignment-readout", view ? view.how : ""); return; }
  const [r, c] = here;
  tell("alignment-readout", [view.rows[r]], view.linked(r, c) ? " is linked to " : " and ", [view.columns[c]],
    `: ${view.value(r, c).toFixed(4)}`);
});
function showAlignment() {
  const one = sentence();
  $("alignment").hidden = !one.alignments.length;
  if (!one.alignments.length) return;
  state.method = Math.min(state.method, one.alignments.length - 1);
  choices("methods", "", one.alignments.map((method, n) => [n, method.name]), state.method, (method) => change({ method }));
  const method = one.alignments[state.method];
  const weights = array(method.weights);
  const linked = new Set(method.links.map(([at, to]) => `${to} ${at}`));
  let largest = 1e-9;
  const rows = one.target_words.texts, columns = one.source_words.texts;
  rows.forEach((_, r) => columns.forEach((_, c) => { largest = Math.max(largest, weights.at(r, c)); }));
  links.show({
    rows, columns,
    how: `By ${method.name}: ${method.how}.`,
    value: weights.at,
    linked: (r, c) => linked.has(`${r} ${c}`),
    tone: (r, c) => shade(weights.at(r, c) / largest),
    mark: (r, c) => linked.has(`${r} ${c}`),
  });
  $("alignment-note").textContent = "Rows are words of the translation, columns those of the source; framed squares are links.";
}

// What each step might have written.
const bars = { width: 0, left: 10 };
function showSteps() {
  const { steps } = sentence(), canvas = $("steps");
  const height = 110, named = 54;
  bars.width = Math.max(5, Math.min(54, Math.floor((room(canvas) - 20) / steps.length)));
  const pen = sized(canvas, 20 + bars.width * steps.length + 30, height + named);
  pen.strokeStyle = styled("--line");
  pen.beginPath(); pen.moveTo(bars.left, height + 0.5); pen.lineTo(bars.left + bars.width * steps.length, height + 0.5); pen.stroke();
  steps.forEach((one, n) => {
    const share = Math.exp(one.log_prob), x = bars.left + n * bars.width, tall = Math.max(1, share * (height - 12));
    const chosen = state.step?.side === "target" && state.step.place === n;
    pen.fillStyle = accent(chosen ? 1 : 0.55, one.rank ? "--less" : "--accent");
    pen.fillRect(x + 1, height - tall, bars.width - Math.min(6, bars.width / 3), tall);
    if (bars.width >= 12 || chosen) {
      pen.save();
      pen.translate(x + bars.width / 2 - 3, height + 9);
      pen.rotate(Math.PI / 4);
      pen.font = `${chosen ? 600 : 400} 12px ${FONT}`;
      pen.fillStyle = chosen ? accent(1) : styled("--ink");
      pen.fillText(shown(one.token), 0, 0, 64);
      pen.restore();
    }
  });
}
function distribution(place) {
  const one = sentence().steps[place];
  tell("step-readout", `${STEPS[sentence().task](place)}: `, [shown(one.token)],
    ` with probability ${Math.exp(one.log_prob).toFixed(4)}, ${one.rank ? `behind ${one.rank} more probable` : "the most probable"}`);
  const rows = one.best.flatMap(([token, share]) => {
    const own = token === one.token ? "own" : "";
    const bar = Object.assign(document.createElement("div"), { className: `bar ${own}` });
    bar.style.width = `${Math.max(0.2, 100 * share)}%`;
    return [Object.assign(document.createElement("div"), { className: own, textContent: shown(token) }), bar,
      Object.assign(document.createElement("div"), { className: own, textContent: share.toFixed(4) })];
  });
  $("distribution").replaceChildren(...rows);
  showSteps();
}
function stepAt(event) {
  const box = $("steps").getBoundingClientRect();
  const place = Math.floor((event.clientX - box.left - bars.left) / bars.width);
  if (place < 0 || place >= sentence().steps.length) return;
  if (event.type === "click") state.kept = true;
  if (event.type === "click" || !state.kept) step({ side: "target", place });
}
["pointermove", "click"].forEach((name) => $("steps").addEventListener(name, stepAt));
$("steps").addEventListener("keydown", (event) => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  event.preventDefault();
  const place = state.step?.side === "target" ? state.step.place + move : 0;
  state.kept = true;
  step({ side: "target", place: Math.max(0, Math.min(sentence().steps.length - 1, place)) });
});

// Attribution.
const shares = grid($("shares"), (here, view) => {
  if (!here) { tell("attribution-readout", "Point at the map: a row is what was predicted, a column what was read."); return; }
  const [r, c] = here, value = view.value(r, c);
  tell("attribution-readout", [view.columns[c]], " makes ", [view.rows[r]],
    ` ${value < 0 ? "less" : "more"} probable: ${value.toFixed(4)} nats`);
});
function showAttribution() {
  const one = sentence(), names = Object.keys(one.attributions);
  state.attribution = Math.min(state.attribution, names.length - 1);
  choices("attributions", "", names.map((name, n) => [n, name]), state.attribution,
    (attribution) => change({ attribution }));
  const { values, rows, columns, note } = one.attributions[names[state.attribution]];
  const numbers = array(values), value = (r, c) => numbers.at(r, c);
  let largest = 1e-9;
  rows.forEach((_, r) => columns.forEach((_, c) => { largest = Math.max(largest, Math.abs(value(r, c))); }));
  shares.show({
    rows: readable(rows), columns: readable(columns), value,
    tone: (r, c) => Math.sign(value(r, c)) * shade(Math.abs(value(r, c)) / largest),
  });
  $("attribution-how").textContent = note;
}

// The whole page.
function showPair() {
  const one = sentence();
  tokens("source", one.source, "source");
  tokens("target", one.target, "target");
  [$("pair-note").textContent, $("prediction-title").textContent] = TASKS[one.task];
  $("steps").closest(".scroll").hidden = one.steps.length < 2;
  const per = one.target.length < 2 ? "" : `, ${(one.log_prob / one.target.length).toFixed(4)} a token`;
  const ended = ["translation", "continuation"].includes(one.task) ? ", end symbol included" : "";
  $("score").textContent = `Log-probability ${one.log_prob.toFixed(4)} nats${per}${ended}.`;
  state.kept = false;
  state.step = null;
  distribution(0);
}
function showSentences() {
  $("systems").replaceChildren(...(data.systems.length < 2 ? [] : data.systems.map((one, n) =>
    button(one.name, n === state.system, () => change({ system: n }, true)))));
  $("sentences").replaceChildren(...(system().sentences.length < 2 ? [] : system().sentences.map((one, n) =>
    button(one.source_text, n === state.sentence, () => change({ sentence: n }, true)))));
  $("facts").replaceChildren(...system().facts.flatMap(([name, value], n) => [
    document.createTextNode(`${n ? " · " : ""}${name} `), Object.assign(document.createElement("b"), { textContent: value })]));
}
function change(next, whole = false) {
  Object.assign(state, next);
  if (whole) { showSentences(); showPair(); }
  showAttention();
  beside.show();
  if (sentence().weights[state.kind]) showStatistics();
  showAlignment();
  showAttribution();
  beam.show(sentence());
  if (state.step) step(state.step);
}

function redraw() {
  map.draw(); links.draw(); shares.draw(); showSteps();
  const one = sentence();
  if (one.weights[state.kind]) thumbnails(one, ...array(one.weights[state.kind]).shape.slice(0, 2));
  if (one.weights[state.kind]) showStatistics();
  beam.draw();
  beside.draw();
  if (state.step) step(state.step);
}

const last = (one) => Object.values(one.weights).map((packed) => array(packed).shape[0]).at(-1) ?? 1;
state.layer = last(sentence()) - 1;
change({}, true);
themed(redraw);
window.dragoman = { state, change, map, links, shares, beam, beside, sentence };
