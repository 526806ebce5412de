const data = JSON.parse($("data").textContent);
const KINDS = {
  encoder: ["encoder", "Encoder self-attention: tokens attend to tokens before and after them"],
  masked: ["masked", "Masked self-attention: tokens attend to themselves and to earlier tokens"],
  ssru: ["memory", "Memory of the SSRU: how much of each token its cells still hold after reading a token; a group has the features of similar memory, from the shortest to the longest"],
  cross: ["cross", "Cross-attention: steps of the translation attend to source tokens"],
};
const STATISTICS = {
  entropy: ["entropy", "Entropy of the attention weights in nats: 0 for one key, larger for more equal weights.", 2],
  distance: ["distance", "Mean distance between query and key, in positions.", 2],
  on_punctuation: ["on punctuation", "Attention weight on punctuation.", 2],
  on_eos: ["on the end symbol", "Attention weight on the end symbol, which heads often attend to when they find nothing.", 2],
  effect: ["effect", "Change of the log-probability of this output without the head, in nats.", 3],
};
// Note of the first section, and title of the predictions, by task.
const HINT = "Point at a token to see its attention; click to keep it. ";
const TASKS = {
  translation: [`${HINT}Shades of source tokens show the attention selected below, those of earlier target tokens the masked one or the memory.`,
    "Predictions of each step"],
  continuation: [`${HINT}The prompt is above, the continuation below.`, "Predictions of each step"],
  label: [`${HINT}The predicted label is below the text; if one position predicts it, point at the label for its attention.`,
    "Predicted label"],
  tags: [`${HINT}The tags of the words are below the text.`, "Predicted tags"],
  answer: [`${HINT}The first and the last token of the answer are below question and text.`, "Predicted start and end of the answer"],
};
const STEP_NAMES = {
  translation: (place) => `Step ${place + 1}`,
  continuation: (place) => `Step ${place + 1}`,
  label: () => "Text",
  tags: (place) => sentence().source_words.texts[place],
  answer: (place) => ["First token", "Last token"][place],
};
const state = { system: 0, sentence: 0, kind: "cross", layer: 0, head: "mean", mask: false, token: null, pinned: false,
  statistic: "entropy", method: 0, attribution: 0 };

const system = () => data.systems[state.system];
const sentence = () => system().sentences[state.sentence];
const displayTokens = (tokens) => tokens.map(displayToken);
const range = (count) => [...Array(count).keys()];
// Names of the queries and keys of an attention kind; Linformer's keys are not positions and only have numbers.
function axes(one, kind) {
  const [rows, columns] = {
    encoder: [one.source, one.source], cross: [one.target, one.source],
  }[kind] || [one.inputs, one.inputs];
  const keys = array(one.weights[kind]).shape[3];
  const projected = one.projected.includes(kind);
  return [displayTokens(rows), projected ? range(keys).map((n) => `projected key ${n + 1}`) : displayTokens(columns)];
}

// Show parts of text; parts in lists are bold.
function setReadout(id, ...parts) {
  $(id).replaceChildren(...parts.map((part) => (Array.isArray(part) ? element("b", part[0]) : document.createTextNode(part))));
}

// Attention: functions from row and column to a weight; means over heads are computed once.
const means = new Map();
function meanOverHeads(packed, layer) {
  const key = `${layer}`, known = means.get(packed) || means.set(packed, new Map()).get(packed);
  if (known.has(key)) return known.get(key);
  const weights = array(packed), [, heads, rows, columns] = weights.shape;
  // Pruned heads have zero weights.
  const present = range(heads).filter((h) => range(columns).some((c) => weights.at(layer, h, 0, c) > 0));
  const mean = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    let sum = 0;
    for (const h of present) sum += weights.at(layer, h, r, c);
    mean[r * columns + c] = sum / present.length;
  }
  known.set(key, (r, c) => mean[r * columns + c]);
  return known.get(key);
}
function weightFunction(one, kind, layer, head) {
  if (kind === "encoder" && head === "rollout") {
    const rollout = array(one.rollout);
    return (r, c) => rollout.at(layer, r, c);
  }
  if (head === "mean") return meanOverHeads(one.weights[kind], layer);
  const weights = array(one.weights[kind]);
  return (r, c) => weights.at(layer, head, r, c);
}
const map = grid($("map"), (cell, view) => {
  if (!cell) {
    setReadout("attention-readout", `Point at the map: rows ${state.kind === "ssru" ? "still hold" : "attend to"} columns. Darker colors are larger weights.`);
    if (!state.pinned) selectToken(null);
    return;
  }
  const [r, c] = cell;
  setReadout("attention-readout", [view.rows[r]], state.kind === "ssru" ? " still holds " : " attends to ", [view.columns[c]], `: ${decimals(view.value(r, c), 4)}`);
  if (!state.pinned) selectToken(tokenOfRow(r));
});
// The source or target token of a row of the map.
function tokenOfRow(row) {
  const one = sentence();
  if (one.task === "translation") return { side: state.kind === "encoder" ? "source" : "target", place: row };
  if (one.task !== "continuation") return { side: "source", place: row };
  const place = row - one.source.length;
  return place < 0 ? { side: "source", place: row } : { side: "target", place, row };
}
function showAttention() {
  const one = sentence();
  const kinds = Object.keys(KINDS).filter((kind) => one.weights[kind]);
  $("attention").hidden = $("statistics").hidden = !kinds.length;
  if (!kinds.length) return;
  if (!kinds.includes(state.kind)) state.kind = kinds[kinds.length - 1];
  const [layers, heads, , keys] = array(one.weights[state.kind]).shape;
  state.layer = Math.min(state.layer, layers - 1);
  if (typeof state.head === "number" && state.head >= heads) state.head = "mean";
  if (state.head === "rollout" && (state.kind !== "encoder" || !one.rollout)) state.head = "mean";
  choices("kinds", "", kinds.map((kind) => [kind, ...KINDS[kind]]), state.kind, (kind) => change({ kind }));
  const numbers = (count) => range(count).map((n) => [n, String(n + 1)]);
  choices("layers", "layer", numbers(layers), state.layer, (layer) => change({ layer }));
  const rollout = state.kind === "encoder" && one.rollout ? [["rollout", "rollout"]] : [];
  choices("heads", state.kind === "ssru" ? "group" : "head", [["mean", "mean"], ...numbers(heads), ...rollout, ["mask", "mask"]],
    state.mask ? "mask" : state.head, (head) => change(head === "mask" ? { mask: true } : { head, mask: false }));
  $("maps").classList.toggle("long", keys > 34);
  const masks = array(one.masks[state.kind]);
  const varies = masks.shape[0] > 1 || masks.shape[1] > 1;
  const index = varies ? [state.layer, typeof state.head === "number" ? state.head : 0] : [0, 0];
  const value = state.mask ? (r, c) => masks.at(...index, r, c) : weightFunction(one, state.kind, state.layer, state.head);
  const [rows, columns] = axes(one, state.kind);
  map.show({ rows, columns, value, tone: (r, c) => (state.mask ? 0.45 * value(r, c) : shade(value(r, c))) });
  const where = varies ? ` in layer ${index[0] + 1}, head ${index[1] + 1}` : "";
  $("attention-note").textContent = state.mask ? `Attention mask: the columns that each row may attend to${where}.`
    : `${KINDS[state.kind][1]}. The shade is the square root of the weight, which makes small weights visible.`
      + (state.kind === "cross" ? " A step attends to the source before it knows its own token." : "");
  showThumbnails(one, layers, heads);
  showDecay(one, state.kind, state.layer, state.head);
}
let tiles = null;
const images = new Map();
function cachedImage(packed, layer, head) {
  const key = `${layer} ${head} ${document.documentElement.dataset.theme}`;
  const known = images.get(packed) || images.set(packed, new Map()).get(packed);
  const weights = array(packed), [, , rows, columns] = weights.shape;
  if (!known.has(key)) known.set(key, image(rows, columns, (r, c) => shade(weights.at(layer, head, r, c))));
  return known.get(key);
}
function showThumbnails(one, layers, heads) {
  const canvas = $("thumbnails"), gap = 10;
  const tile = Math.max(26, Math.min(120, Math.floor((availableWidth(canvas) - 40) / heads) - gap));
  const pen = resize(canvas, 40 + heads * (tile + gap), 22 + layers * (tile + gap));
  tiles = { tile, gap, layers, heads };
  pen.font = `12px ${FONT}`;
  for (let layer = 0; layer < layers; layer++) {
    pen.fillStyle = color("--quiet");
    pen.fillText(String(layer + 1), 12, 22 + layer * (tile + gap) + tile / 2);
    for (let head = 0; head < heads; head++) {
      const x = 32 + head * (tile + gap), y = 20 + layer * (tile + gap);
      if (!layer) { pen.fillStyle = color("--quiet"); pen.fillText(String(head + 1), x + tile / 2 - 3, 9); }
      const thumbnail = cachedImage(one.weights[state.kind], layer, head);
      pen.imageSmoothingEnabled = thumbnail.width > tile;
      pen.drawImage(thumbnail, x, y, tile, tile);
      const selected = layer === state.layer && (head === state.head || state.head === "mean");
      pen.strokeStyle = selected ? tint(1) : color("--line");
      pen.lineWidth = selected ? 2 : 1;
      pen.strokeRect(x - 1, y - 1, tile + 2, tile + 2);
    }
  }
}
$("thumbnails").addEventListener("click", (event) => {
  const box = event.target.getBoundingClientRect(), step = tiles.tile + tiles.gap;
  const head = Math.floor((event.clientX - box.left - 32) / step), layer = Math.floor((event.clientY - box.top - 20) / step);
  if (head >= 0 && layer >= 0 && head < tiles.heads && layer < tiles.layers) change({ layer, head, mask: false });
});

// Source and target as tokens to point at.
function showTokens(id, list, side) {
  $(id).replaceChildren(...list.map((token, place) => {
    const one = button(displayToken(token), false, () => {
      const same = state.pinned && state.token && state.token.side === side && state.token.place === place;
      state.pinned = !same;
      selectToken(same ? null : { side, place });
    });
    const apart = token.startsWith("▁") || (side === "target" && !["translation", "continuation"].includes(sentence().task));
    one.className = `${apart ? "first" : ""} ${/^<.+>$/.test(token) ? "symbol first" : ""}`;
    one.addEventListener("pointerenter", () => { if (!state.pinned) selectToken({ side, place }); });
    one.addEventListener("pointerleave", () => { if (!state.pinned) selectToken(null); });
    return one;
  }));
}
function selectToken(next) {
  state.token = next;
  const one = sentence();
  const paint = (id, weight, selected) => [...$(id).children].forEach((token, place) => {
    const share = weight ? weight(place) : 0;
    token.style.background = share > 0.02 ? tint(decimals(0.75 * shade(share), 3)) : "";
    token.dataset.weight = weight ? decimals(share, 4) : "";
    token.classList.toggle("selected", place === selected);
    token.setAttribute("aria-pressed", state.pinned && place === selected);
  });
  if (!next) { paint("source", null, -1); paint("target", null, -1); return; }
  const weights = (kind) => {
    if (!one.weights[kind] || one.projected.includes(kind)) return null;
    const [layers, heads] = array(one.weights[kind]).shape;
    const head = typeof state.head === "number" && state.head < heads ? state.head : "mean";
    return weightFunction(one, kind, Math.min(state.layer, layers - 1), head);
  };
  if (one.task === "translation") {
    const encoder = weights("encoder"), cross = weights("cross"), masked = weights("masked") || weights("ssru"), row = next.place;
    if (next.side === "source") {
      paint("source", encoder && ((place) => encoder(row, place)), row);
      paint("target", cross && ((place) => cross(place, row)), -1);
    } else {
      paint("source", cross && ((place) => cross(row, place)), -1);
      paint("target", masked && ((place) => (place < row ? masked(row, place + 1) : 0)), row);
    }
  } else {
    // One sequence attends to itself: the source, followed by the continuation if there is one.
    const inside = weights(one.weights.encoder ? "encoder" : "masked"), start = one.source.length;
    // A token is selected for the row that predicts it, and in the map for its own row.
    const row = next.side === "source" ? next.place : next.row ?? one.step_positions[next.place];
    const known = inside && row !== null;
    paint("source", known && ((place) => inside(row, place)), next.side === "source" ? next.place : -1);
    const continued = known && one.task === "continuation" && next.side === "target";
    paint("target", continued && ((place) => (start + place <= row ? inside(row, start + place) : 0)),
      next.side === "target" ? next.place : -1);
  }
  if (next.side === "target") showDistribution(next.place);
}

// Statistics of heads.
function showStatistics() {
  const one = sentence();
  const names = Object.keys(STATISTICS).filter((name) => name !== "effect" || Object.keys(one.head_effects).length);
  choices("statistic", "", names.map((name) => [name, STATISTICS[name][0]]), state.statistic,
    (statistic) => change({ statistic }));
  $("statistic-note").textContent = STATISTICS[state.statistic][1];
  const kinds = Object.keys(KINDS).filter((kind) => one.weights[kind]);
  $("tables").replaceChildren(...kinds.map((kind) => statisticTable(one, kind)).filter(Boolean));
}
function statisticTable(one, kind) {
  const [layers, heads] = array(one.weights[kind]).shape;
  const rows = one.statistics.filter((row) => row.kind === kind);
  const value = (layer, head) => (state.statistic === "effect" ? one.head_effects[kind]?.[layer]?.[head]
    : rows.find((row) => row.layer === layer && row.head === head)?.[state.statistic]);
  const all = range(layers * heads).map((n) => value(Math.floor(n / heads), n % heads));
  if (all.every((number) => number === undefined || number === null)) return null;
  const largest = Math.max(1e-9, ...all.map((number) => Math.abs(number)));
  const table = element("table");
  table.createCaption().textContent = KINDS[kind][0];
  table.insertRow().append(element("th"), ...range(heads).map((head) => element("th", `head ${head + 1}`)));
  for (let layer = 0; layer < layers; layer++) {
    const row = table.insertRow();
    row.append(element("th", `layer ${layer + 1}`));
    for (let head = 0; head < heads; head++) {
      const number = value(layer, head);
      const selected = kind === state.kind && layer === state.layer && head === state.head;
      const cell = button(decimals(number, STATISTICS[state.statistic][2]), selected,
        () => change({ kind, layer, head, mask: false }));
      const alpha = 0.62 * Math.abs(number) / largest;
      cell.style.background = tint(decimals(alpha, 3), number < 0 && state.statistic === "effect" ? "--less" : "--more");
      cell.style.color = "var(--ink)";
      Object.assign(cell.dataset, { kind, layer, head });
      row.insertCell().append(cell);
    }
  }
  return table;
}

// Word alignment.
const links = grid($("links"), (cell, view) => {
  if (!cell) { setReadout("alignment-readout", view ? view.description : ""); return; }
  const [r, c] = cell;
  setReadout("alignment-readout", [view.rows[r]], view.framed(r, c) ? " is linked to " : " and ", [view.columns[c]],
    `: ${decimals(view.value(r, c), 4)}`);
});
function showAlignment() {
  const one = sentence();
  $("alignment").hidden = !one.alignments.length;
  if (!one.alignments.length) return;
  state.method = Math.min(state.method, one.alignments.length - 1);
  choices("methods", "", one.alignments.map((method, n) => [n, method.name]), state.method, (method) => change({ method }));
  const method = one.alignments[state.method];
  const weights = array(method.weights);
  const linked = new Set(method.links.map(([source, target]) => `${target} ${source}`));
  const rows = one.target_words.texts, columns = one.source_words.texts;
  let largest = 1e-9;
  rows.forEach((_, r) => columns.forEach((_, c) => { largest = Math.max(largest, weights.at(r, c)); }));
  links.show({
    rows, columns,
    description: `Alignment by ${method.name}: ${method.description}.`,
    value: weights.at,
    tone: (r, c) => shade(weights.at(r, c) / largest),
    framed: (r, c) => linked.has(`${r} ${c}`),
  });
  $("alignment-note").textContent = "Rows are target words, columns are source words, framed squares are links.";
}

// Predictions of each step.
const bars = { width: 0, left: 10 };
function showSteps() {
  const { predictions } = sentence(), canvas = $("steps");
  const height = 110, labels = 54;
  bars.width = Math.max(5, Math.min(54, Math.floor((availableWidth(canvas) - 20) / predictions.length)));
  const pen = resize(canvas, 20 + bars.width * predictions.length + 30, height + labels);
  pen.strokeStyle = color("--line");
  pen.beginPath();
  pen.moveTo(bars.left, height + 0.5);
  pen.lineTo(bars.left + bars.width * predictions.length, height + 0.5);
  pen.stroke();
  predictions.forEach((one, n) => {
    const x = bars.left + n * bars.width, tall = Math.max(1, Math.exp(one.log_prob) * (height - 12));
    const selected = state.token?.side === "target" && state.token.place === n;
    pen.fillStyle = tint(selected ? 1 : 0.55, one.rank ? "--less" : "--accent");
    pen.fillRect(x + 1, height - tall, bars.width - Math.min(6, bars.width / 3), tall);
    if (bars.width >= 12 || selected) {
      pen.save();
      pen.translate(x + bars.width / 2 - 3, height + 9);
      pen.rotate(Math.PI / 4);
      pen.font = `${selected ? 600 : 400} 12px ${FONT}`;
      pen.fillStyle = selected ? tint(1) : color("--ink");
      pen.fillText(displayToken(one.token), 0, 0, 64);
      pen.restore();
    }
  });
}
function showDistribution(place) {
  const one = sentence().predictions[place];
  setReadout("prediction-readout", `${STEP_NAMES[sentence().task](place)}: `, [displayToken(one.token)],
    ` has probability ${decimals(Math.exp(one.log_prob), 4)}, ${one.rank ? `rank ${one.rank + 1}` : "the most probable"}`);
  $("distribution").replaceChildren(...one.alternatives.flatMap(([token, probability]) => {
    const own = token === one.token ? "own" : "";
    const bar = element("div", "", `bar ${own}`);
    bar.style.width = `${Math.max(0.2, 100 * probability)}%`;
    return [element("div", displayToken(token), own), bar, element("div", decimals(probability, 4), own)];
  }));
  showSteps();
}
function selectStep(event) {
  const box = $("steps").getBoundingClientRect();
  const place = Math.floor((event.clientX - box.left - bars.left) / bars.width);
  if (place < 0 || place >= sentence().predictions.length) return;
  if (event.type === "click") state.pinned = true;
  if (event.type === "click" || !state.pinned) selectToken({ side: "target", place });
}
["pointermove", "click"].forEach((name) => $("steps").addEventListener(name, selectStep));
$("steps").addEventListener("keydown", (event) => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  event.preventDefault();
  const place = state.token?.side === "target" ? state.token.place + move : 0;
  state.pinned = true;
  selectToken({ side: "target", place: Math.max(0, Math.min(sentence().predictions.length - 1, place)) });
});

// Attribution.
const contributions = grid($("contributions"), (cell, view) => {
  if (!cell) { setReadout("attribution-readout", "Point at the map: rows are predictions, columns are input tokens."); return; }
  const [r, c] = cell, value = view.value(r, c);
  setReadout("attribution-readout", [view.columns[c]], " makes ", [view.rows[r]],
    ` ${value < 0 ? "less" : "more"} probable: ${decimals(value, 4)} nats`);
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
  contributions.show({
    rows: displayTokens(rows), columns: displayTokens(columns), value,
    tone: (r, c) => Math.sign(value(r, c)) * shade(Math.abs(value(r, c)) / largest),
  });
  $("attribution-note").textContent = note;
}

// The page.
function showTexts() {
  const one = sentence();
  showTokens("source", one.source, "source");
  showTokens("target", one.target, "target");
  [$("texts-note").textContent, $("predictions-title").textContent] = TASKS[one.task];
  $("steps").closest(".scroll").hidden = one.predictions.length < 2;
  const perToken = one.target.length < 2 ? "" : `, ${decimals(one.log_prob / one.target.length, 4)} per token`;
  const eos = one.has_end_symbol ? ", end symbol included" : "";
  $("score").textContent = `Log-probability ${decimals(one.log_prob, 4)} nats${perToken}${eos}.`;
  state.pinned = false;
  state.token = null;
  showDistribution(0);
}
function showNavigation() {
  $("systems").replaceChildren(...(data.systems.length < 2 ? [] : data.systems.map((one, n) =>
    button(one.name, n === state.system, () => change({ system: n }, true)))));
  $("sentences").replaceChildren(...(system().sentences.length < 2 ? [] : system().sentences.map((one, n) =>
    button(one.source_text, n === state.sentence, () => change({ sentence: n }, true)))));
  $("facts").replaceChildren(...system().facts.flatMap(([name, value], n) => [
    document.createTextNode(`${n ? " · " : ""}${name} `), element("b", value)]));
}
function change(next, whole = false) {
  Object.assign(state, next);
  if (whole) { showNavigation(); showTexts(); }
  showAttention();
  sideBySide.show();
  if (sentence().weights[state.kind]) showStatistics();
  showAlignment();
  showAttribution();
  beam.show(sentence());
  if (state.token) selectToken(state.token);
}
function redraw() {
  map.draw(); links.draw(); contributions.draw(); showSteps();
  const one = sentence();
  if (one.weights[state.kind]) {
    showThumbnails(one, ...array(one.weights[state.kind]).shape.slice(0, 2));
    showDecay(one, state.kind, state.layer, state.head);
    showStatistics();
  }
  beam.draw();
  sideBySide.draw();
  if (state.token) selectToken(state.token);
}

const lastWeights = Object.values(sentence().weights).at(-1);
state.layer = lastWeights ? array(lastWeights).shape[0] - 1 : 0;
change({}, true);
setUpTheme(redraw);
window.dragoman = { state, change, map, links, contributions, beam, sideBySide, sentence, decayCurves };
