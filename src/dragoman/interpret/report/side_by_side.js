// Several models on the same sentence: outputs, probabilities and attention.
const sideBySide = (() => {
  const sentences = () => data.systems.map((one) => one.sentences[state.sentence]);
  const maps = [];

  // The selected attention, or the most similar one of a model: the last layer corresponds to the last layer.
  function chooseAttention(one) {
    const kind = one.weights[state.kind] ? state.kind : Object.keys(one.weights).at(-1);
    if (!kind) return null;
    const [layers, heads] = array(one.weights[kind]).shape, last = layers - 1;
    const own = sentence().weights[state.kind], isLast = own && state.layer === array(own).shape[0] - 1;
    const head = typeof state.head === "number" && state.head < heads ? state.head : "mean";
    return { kind, layer: isLast ? last : Math.min(state.layer, last), head };
  }
  function probabilityBars(one) {
    const row = element("div", "", "probabilities");
    row.append(...one.predictions.map((prediction) => {
      const part = element("div", "", "probability"), bar = element("div", "", prediction.rank ? "bar less" : "bar");
      const probability = Math.exp(prediction.log_prob);
      bar.style.height = `${Math.max(2, 100 * probability)}%`;
      part.title = `${displayToken(prediction.token)}: ${decimals(probability, 4)}`;
      part.append(bar);
      return part;
    }));
    return row;
  }
  function systemColumn(system, one, number) {
    const part = element("article"), head = element("h3");
    head.append(button(system.name, number === state.system, () => change({ system: number }, true)));
    part.append(head, element("p", joinTokens(one.target), "output"),
      element("p", `${decimals(one.log_prob, 4)} nats, ${decimals(one.log_prob / one.target.length, 4)} per token`, "note"),
      probabilityBars(one));
    const readout = element("p", "", "readout"), scroll = element("div", "", "scroll"), canvas = element("canvas");
    scroll.append(canvas);
    const chosen = chooseAttention(one);
    if (chosen) part.append(readout, scroll);
    const map = grid(canvas, (cell, view) => {
      if (!view) return;
      const head = chosen.head === "mean" ? "mean of heads" : `head ${chosen.head + 1}`;
      readout.textContent = cell ? `${view.rows[cell[0]]} attends to ${view.columns[cell[1]]}: ${decimals(view.value(...cell), 4)}`
        : `${chosen.kind}, layer ${chosen.layer + 1}, ${head}`;
    });
    maps.push([map, one, chosen]);
    return part;
  }
  function crossScores() {
    if (!data.cross_scores) return [];
    const table = element("table", "", "figures"), top = element("tr");
    top.append(element("th", "log-probability of"), ...data.systems.map((system) => element("th", `by ${system.name}`)));
    const texts = sentences().map((one) => joinTokens(one.target)), rows = [...data.cross_scores[state.sentence].entries()];
    const distinct = rows.filter(([output]) => texts.indexOf(texts[output]) === output);
    table.append(top, ...distinct.map(([output, row]) => {
      const line = element("tr");
      line.append(element("th", texts[output]), ...row.map((value) => element("td", decimals(value, 4))));
      return line;
    }));
    const scroll = element("div", "", "scroll");
    scroll.append(table);
    return [scroll];
  }
  function draw() {
    for (const [map, one, chosen] of maps) {
      if (!chosen) continue;
      const value = weightFunction(one, chosen.kind, chosen.layer, chosen.head), [rows, columns] = axes(one, chosen.kind);
      map.show({ maxCell: 22, rows, columns, value, tone: (r, c) => shade(value(r, c)) });
    }
  }
  return {
    show() {
      $("side-by-side").hidden = data.systems.length < 2;
      if (data.systems.length < 2) return;
      maps.length = 0;
      $("columns").replaceChildren(...data.systems.map((system, n) => systemColumn(system, sentences()[n], n)), ...crossScores());
      $("side-by-side-note").textContent = "Bars are the probabilities of the tokens; red tokens were not the most probable. "
        + "The maps show the attention selected below.";
      draw();
    },
    draw,
    maps: () => maps.map(([map]) => map),
  };
})();
