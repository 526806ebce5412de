const data = JSON.parse($("data").textContent);
const state = { metric: "bleu", system: 0, layer: null };
const SYSTEM_COLORS = ["--accent", "--less", "--good"];
const MIN_COUNT = 30;
const format = (value, digits = 1) => (value === null || value === undefined ? "–" : decimals(value, digits));
const percent = (value) => (value === null ? "–" : `${decimals(100 * value, 1)} %`);

function table(id, head, rows) {
  const top = element("tr");
  top.append(...head.map((text) => element("th", text)));
  $(id).replaceChildren(top, ...rows.map((cells) => {
    const row = element("tr");
    row.append(...cells.map((text, n) => element(n ? "td" : "th", text)));
    return row;
  }));
}
const names = (rows) => [...new Set(data.systems.flatMap((system) => rows(system).map((row) => row.name)))];
const find = (rows, name) => rows.find((row) => row.name === name);

// Bars of every system, one group per name; values are percentages. Bars of few sentences or words are pale.
function bars(id, groups, value, label, count) {
  const canvas = $(id), left = 44, height = 170, systems = data.systems;
  const group = Math.max(30 * systems.length, Math.min(130, (availableWidth(canvas) - left - 20) / groups.length));
  const all = systems.flatMap((system) => groups.map((name) => value(system, name) ?? 0));
  const top = 4 * ([5, 10, 15, 20, 25].find((unit) => 4 * unit >= Math.max(...all)) ?? 25);
  const pen = resize(canvas, left + group * groups.length + 10, height + 76);
  pen.font = `12px ${FONT}`;
  for (let tick = 0; tick <= 4; tick++) {
    const y = height - (height - 14) * tick / 4;
    pen.fillStyle = color("--line");
    pen.fillRect(left, y, group * groups.length, 1);
    pen.fillStyle = color("--quiet");
    pen.textAlign = "right";
    pen.fillText(label(top * tick / 4), left - 6, y);
  }
  groups.forEach((name, g) => {
    const width = Math.min(34, (group - 14) / systems.length), begin = left + g * group + (group - width * systems.length) / 2;
    systems.forEach((system, n) => {
      const barHeight = (value(system, name) ?? 0) / top * (height - 14);
      pen.fillStyle = tint(count(name) < MIN_COUNT ? 0.25 : 0.8, SYSTEM_COLORS[n % SYSTEM_COLORS.length]);
      pen.fillRect(begin + n * width + 1, height - barHeight, width - 2, barHeight);
    });
    pen.fillStyle = color("--ink");
    pen.textAlign = "center";
    pen.fillText(name, left + (g + 0.5) * group, height + 14);
    pen.fillStyle = color("--quiet");
    pen.fillText(`n = ${count(name)}`, left + (g + 0.5) * group, height + 29);
  });
  let x = left;
  pen.textAlign = "left";
  systems.forEach((system, n) => {
    pen.fillStyle = tint(0.8, SYSTEM_COLORS[n % SYSTEM_COLORS.length]);
    pen.fillRect(x, height + 50, 11, 11);
    pen.fillStyle = color("--ink");
    pen.fillText(system.name, x + 17, height + 56);
    x += 34 + pen.measureText(system.name).width;
  });
}

function showTables() {
  const systems = data.systems;
  const comparison = data.differences.length ? [`BLEU − ${systems[0].name}`, "p"] : [];
  table("overall", ["", "sentences", "BLEU", "chrF", ...comparison], systems.map(({ name, overall }, n) => {
    const { bleu, p_randomization: p } = data.differences[n] || {};
    const cells = n ? [format(bleu), p < 0.001 ? "< 0.001" : format(p, 3)] : ["", ""];
    return [name, String(overall.sentences), format(overall.bleu), format(overall.chrf), ...cells.slice(0, comparison.length)];
  }));
  $("significance").hidden = !comparison.length;
  $("signature").textContent = data.signature;
  const groups = names((system) => system.by_length);
  table("length-table", ["words", "sentences", ...systems.flatMap((one) => [`BLEU ${one.name}`, `chrF ${one.name}`])],
    groups.map((name) => [name, String(find(systems[0].by_length, name).sentences), ...systems.flatMap((system) => {
      const row = find(system.by_length, name);
      return [format(row.bleu), format(row.chrf)];
    })]));
  const frequencies = names((system) => system.by_frequency);
  $("by-frequency").hidden = !frequencies.length;
  table("frequency-table", ["in training", "in references", ...systems.map((one) => `recall ${one.name}`)], frequencies.map((name) =>
    [name, String(find(systems[0].by_frequency, name).in_references), ...systems.map((one) => percent(find(one.by_frequency, name).recall))]));
  table("kinds", ["words", "in references", ...systems.flatMap((one) => [`recall ${one.name}`, `precision ${one.name}`])],
    names((system) => system.by_kind).map((name) => [name, String(find(systems[0].by_kind, name).in_references),
      ...systems.flatMap((one) => [percent(find(one.by_kind, name).recall), percent(find(one.by_kind, name).precision)])]));
  const list = (numbers) => (numbers.length ? `${numbers.length}: ${numbers.slice(0, 12).map((n) => n + 1).join(", ")}`
    + (numbers.length > 12 ? ", …" : "") : "0");
  table("errors", ["", "empty", "repetitive", "copied from the source"], systems.map(({ name, errors }) =>
    [name, list(errors.empty), list(errors.repetitive), list(errors.copied)]));
}
function showBars() {
  choices("metric", "", [["bleu", "BLEU"], ["chrf", "chrF"]], state.metric, (metric) => { state.metric = metric; showBars(); });
  bars("lengths", names((system) => system.by_length), (system, name) => find(system.by_length, name)?.[state.metric],
    (value) => String(value), (name) => find(data.systems[0].by_length, name).sentences);
  const frequencies = names((system) => system.by_frequency);
  if (frequencies.length) {
    bars("frequencies", frequencies, (system, name) => 100 * (find(system.by_frequency, name)?.recall ?? 0),
      (value) => `${value} %`, (name) => find(data.systems[0].by_frequency, name).in_references);
  }
}
function worstSentence(one) {
  const part = element("article", "", "worst");
  part.append(element("h3", `Sentence ${one.index + 1}, chrF ${format(one.chrf)}`));
  for (const [name, text] of [["source", one.source], ["reference", one.reference], ["output", one.output || "(empty)"]]) {
    const line = element("p");
    line.append(element("b", `${name} `), document.createTextNode(text));
    part.append(line);
  }
  if (one.attention) {
    const scroll = element("div", "", "scroll"), canvas = element("canvas"), readout = element("p", "", "readout");
    scroll.append(canvas);
    part.append(readout, scroll);
    const weights = array(one.attention.weights);
    const layer = state.layer ?? weights.shape[0] - 1;
    part.draw = () => {
      const map = grid(canvas, (cell, view) => {
        readout.textContent = cell ? `${view.rows[cell[0]]} attends to ${view.columns[cell[1]]}: ${decimals(view.value(...cell), 4)}`
          : `Cross-attention of layer ${layer + 1}, mean of heads.`;
      });
      const value = (r, c) => weights.at(layer, r, c);
      map.show({ maxCell: 17, rows: one.attention.target, columns: one.attention.source, value,
        tone: (r, c) => shade(value(r, c)) });
    };
  }
  return part;
}
function showWorst() {
  choices("systems", "", data.systems.map((one, n) => [n, one.name]), state.system, (system) => { state.system = system; showWorst(); });
  const parts = data.systems[state.system].worst.map(worstSentence);
  $("worst").replaceChildren(...parts);
  parts.forEach((part) => part.draw && part.draw());
}
setUpTheme(() => { showBars(); showWorst(); });
showTables();
