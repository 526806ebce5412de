// Two models or more on the same sentence: what each writes, how probable each finds it, and where each looks.
const beside = (() => {
  const all = () => data.systems.map((one) => one.sentences[state.sentence]);
  const written = (one) => one.target.filter((token) => !/^<.+>$/.test(token)).join("").replaceAll("▁", " ").trim();
  const made = (name, text, type) => Object.assign(document.createElement(name), { textContent: text, className: type || "" });
  const maps = [];

  // The attention chosen below, or the nearest that a model has: of the last layer that of each.
  function chosen(one) {
    const kind = one.weights[state.kind] ? state.kind : Object.keys(one.weights).at(-1);
    if (!kind) return null;
    const [layers, heads] = array(one.weights[kind]).shape, last = layers - 1;
    const here = sentence().weights[state.kind], topmost = here && state.layer === array(here).shape[0] - 1;
    const head = typeof state.head === "number" && state.head < heads ? state.head : "mean";
    return { kind, layer: topmost ? last : Math.min(state.layer, last), head };
  }
  function bars(one) {
    const row = made("div", "", "chances");
    row.append(...one.steps.map((step) => {
      const part = made("div", "", "chance"), bar = made("div", "", step.rank ? "bar less" : "bar");
      bar.style.height = `${Math.max(2, 100 * Math.exp(step.log_prob))}%`;
      part.title = `${shown(step.token)}: ${Math.exp(step.log_prob).toFixed(4)}`;
      part.append(bar);
      return part;
    }));
    return row;
  }
  function column(system, one, number) {
    const part = made("article", "");
    const head = made("h3", "");
    head.append(button(system.name, number === state.system, () => change({ system: number }, true)));
    part.append(head, made("p", written(one), "written"),
      made("p", `${one.log_prob.toFixed(4)} nats, ${(one.log_prob / one.target.length).toFixed(4)} a token`, "note"), bars(one));
    const told = made("p", "", "readout"), scroll = made("div", "", "scroll"), canvas = document.createElement("canvas");
    scroll.append(canvas);
    const looked = chosen(one);
    if (looked) part.append(told, scroll);
    const map = grid(canvas, (here, view) => {
      if (!view) return;
      const name = `${looked.kind}, layer ${looked.layer + 1}, ${looked.head === "mean" ? "mean of heads" : `head ${looked.head + 1}`}`;
      told.textContent = here ? `${view.rows[here[0]]} looks at ${view.columns[here[1]]}: ${view.value(...here).toFixed(4)}` : name;
    });
    maps.push([map, one, looked]);
    return part;
  }
  function judged() {
    if (!data.judged) return [];
    const table = made("table", "", "figures"), top = document.createElement("tr");
    top.append(made("th", "log-probability of"), ...data.systems.map((system) => made("th", `by ${system.name}`)));
    const texts = all().map(written), rows = [...data.judged[state.sentence].entries()];
    const different = rows.filter(([of]) => texts.indexOf(texts[of]) === of);
    table.append(top, ...different.map(([of, row]) => {
      const line = document.createElement("tr");
      line.append(made("th", texts[of]), ...row.map((value) => made("td", value.toFixed(4))));
      return line;
    }));
    const scroll = made("div", "", "scroll");
    scroll.append(table);
    return [scroll];
  }
  function draw() {
    for (const [map, one, looked] of maps) {
      if (!looked) continue;
      const value = weight(one, looked.kind, looked.layer, looked.head), [rows, columns] = sides(one, looked.kind);
      const width = array(one.weights[looked.kind]).shape[3];
      const mixed = one.mixtures.includes(looked.kind);
      map.show({
        most: 22, rows: readable(rows), value, tone: (r, c) => shade(value(r, c)),
        columns: mixed ? [...Array(width).keys()].map((n) => `mixture ${n + 1}`) : readable(columns),
      });
    }
  }
  return {
    show() {
      $("beside").hidden = data.systems.length < 2;
      if (data.systems.length < 2) return;
      maps.length = 0;
      $("columns").replaceChildren(...data.systems.map((system, n) => column(system, all()[n], n)), ...judged());
      $("beside-note").textContent = "Bars are the probabilities of the tokens one by one; red ones were not the most probable. "
        + "The maps follow what is chosen below.";
      draw();
    },
    draw,
    maps: () => maps.map(([map]) => map),
  };
})();
