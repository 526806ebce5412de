const data = JSON.parse($("data").textContent);
const state = { metric: "bleu", system: 0, layer: null };
const COLOURS = ["--accent", "--less", "--good"];
const FEW = 30;
const number = (value, digits = 1) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
const made = (name, text, type) => Object.assign(document.createElement(name), { textContent: text, className: type || "" });

function table(id, head, rows) {
  const top = document.createElement("tr");
  top.append(...head.map((text) => made("th", text)));
  $(id).replaceChildren(top, ...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((text, n) => made(n ? "td" : "th", text)));
    return row;
  }));
}
const names = (rows) => [...new Set(data.systems.flatMap((system) => rows(system).map((row) => row.name)))];
const find = (rows, name) => rows.find((row) => row.name === name);

// Bars of every system side by side, a group a name; values are percent. What rests on few sentences or words is pale.
function bars(id, groups, value, label, count) {
  const canvas = $(id), left = 44, height = 170, systems = data.systems;
  const group = Math.max(30 * systems.length, Math.min(130, (room(canvas) - left - 20) / groups.length));
  const all = systems.flatMap((system) => groups.map((name) => value(system, name) ?? 0));
  const top = 4 * ([5, 10, 15, 20, 25].find((unit) => 4 * unit >= Math.max(...all)) ?? 25);
  const pen = sized(canvas, left + group * groups.length + 10, height + 76);
  pen.font = `12px ${FONT}`;
  for (let tick = 0; tick <= 4; tick++) {
    const y = height - (height - 14) * tick / 4;
    pen.fillStyle = styled("--line");
    pen.fillRect(left, y, group * groups.length, 1);
    pen.fillStyle = styled("--quiet");
    pen.textAlign = "right";
    pen.fillText(label(top * tick / 4), left - 6, y);
  }
  groups.forEach((name, g) => {
    const wide = Math.min(34, (group - 14) / systems.length), begin = left + g * group + (group - wide * systems.length) / 2;
    systems.forEach((system, n) => {
      const share = (value(system, name) ?? 0) / top;
      pen.fillStyle = accent(count(name) < FEW ? 0.25 : 0.8, COLOURS[n % COLOURS.length]);
      pen.fillRect(begin + n * wide + 1, height - share * (height - 14), wide - 2, share * (height - 14));
    });
    pen.fillStyle = styled("--ink");
    pen.textAlign = "center";
    pen.fillText(name, left + (g + 0.5) * group, height + 14);
    pen.fillStyle = styled("--quiet");
    pen.fillText(`n = ${count(name)}`, left + (g + 0.5) * group, height + 29);
  });
  let x = left;
  pen.textAlign = "left";
  systems.forEach((system, n) => {
    pen.fillStyle = accent(0.8, COLOURS[n % COLOURS.length]);
    pen.fillRect(x, height + 50, 11, 11);
    pen.fillStyle = styled("--ink");
    pen.fillText(system.name, x + 17, height + 56);
    x += 34 + pen.measureText(system.name).width;
  });
}

function showTables() {
  const systems = data.systems;
  const against = data.differences.length ? [`BLEU above ${systems[0].name}`, "p"] : [];
  table("overall", ["", "sentences", "BLEU", "chrF", ...against], systems.map(({ name, overall }, n) => {
    const { bleu, p_randomization: p } = data.differences[n] || {};
    const shown = n ? [number(bleu), p < 0.001 ? "< 0.001" : number(p, 3)] : ["", ""];
    return [name, String(overall.sentences), number(overall.bleu), number(overall.chrf), ...shown.slice(0, against.length)];
  }));
  $("chance").hidden = !against.length;
  $("signature").textContent = data.signature;
  const groups = names((system) => system.by_length);
  table("length-table", ["words", "sentences", ...systems.flatMap((one) => [`BLEU ${one.name}`, `chrF ${one.name}`])],
    groups.map((name) => [name, String(find(systems[0].by_length, name).sentences), ...systems.flatMap((system) => {
      const row = find(system.by_length, name);
      return [number(row.bleu), number(row.chrf)];
    })]));
  const common = names((system) => system.by_frequency);
  $("rare").hidden = !common.length;
  table("frequency-table", ["in training", "in references", ...systems.map((one) => `recall ${one.name}`)], common.map((name) =>
    [name, String(find(systems[0].by_frequency, name).in_references), ...systems.map((one) => percent(find(one.by_frequency, name).recall))]));
  table("kinds", ["words", "in references", ...systems.flatMap((one) => [`recall ${one.name}`, `precision ${one.name}`])],
    names((system) => system.by_kind).map((name) => [name, String(find(systems[0].by_kind, name).in_references),
      ...systems.flatMap((one) => [percent(find(one.by_kind, name).recall), percent(find(one.by_kind, name).precision)])]));
  const listed = (numbers) => (numbers.length ? `${numbers.length}: ${numbers.slice(0, 12).map((n) => n + 1).join(", ")}`
    + (numbers.length > 12 ? ", …" : "") : "0");
  table("errors", ["", "empty", "repetitive", "copied from the source"], systems.map(({ name, errors }) =>
    [name, listed(errors.empty), listed(errors.repetitive), listed(errors.copied)]));
}
function showBars() {
  choices("metric", "", [["bleu", "BLEU"], ["chrf", "chrF"]], state.metric, (metric) => { state.metric = metric; showBars(); });
  bars("lengths", names((system) => system.by_length), (system, name) => find(system.by_length, name)?.[state.metric],
    (value) => String(value), (name) => find(data.systems[0].by_length, name).sentences);
  const common = names((system) => system.by_frequency);
  if (common.length) {
    bars("frequencies", common, (system, name) => 100 * (find(system.by_frequency, name)?.recall ?? 0),
      (value) => `${value} %`, (name) => find(data.systems[0].by_frequency, name).in_references);
  }
}
function sentenceOf(bad) {
  const part = made("article", "", "bad");
  part.append(made("h3", `Sentence ${bad.index + 1}, chrF ${number(bad.chrf)}`));
  for (const [name, text] of [["source", bad.source], ["reference", bad.reference], ["output", bad.output || "(empty)"]]) {
    const line = made("p", "");
    line.append(made("b", `${name} `), document.createTextNode(text));
    part.append(line);
  }
  if (bad.attention) {
    const scroll = made("div", "", "scroll"), canvas = document.createElement("canvas"), told = made("p", "", "readout");
    scroll.append(canvas);
    part.append(told, scroll);
    const weights = array(bad.attention.weights);
    const layer = state.layer ?? weights.shape[0] - 1;
    part.draw = () => {
      const map = grid(canvas, (here, view) => {
        told.textContent = here ? `${view.rows[here[0]]} looks at ${view.columns[here[1]]}: ${view.value(...here).toFixed(4)}`
          : `Attention to the source in layer ${layer + 1}, the mean of its heads.`;
      });
      const value = (r, c) => weights.at(layer, r, c);
      map.show({ most: 17, rows: bad.attention.target, columns: bad.attention.source, value,
        tone: (r, c) => shade(value(r, c)) });
    };
  }
  return part;
}
function showWorst() {
  choices("systems", "", data.systems.map((one, n) => [n, one.name]), state.system, (system) => { state.system = system; showWorst(); });
  const parts = data.systems[state.system].worst.map(sentenceOf);
  $("worst").replaceChildren(...parts);
  parts.forEach((part) => part.draw && part.draw());
}
themed(() => { showBars(); showWorst(); });
showTables();
