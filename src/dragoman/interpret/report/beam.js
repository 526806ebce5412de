// The tree of a beam search: a column a step, a node a candidate; what goes on is joined to what it came from.
// Of long searches the latest columns are drawn: no browser has a canvas for hundreds.
const beam = (() => {
  const ROW = 26, NODE = 106, COLUMN = 126, MOST = 60;
  const FATES = { "goes on": "goes on", ended: "ended here", cut: "was cut" };
  const COUNTED = { "goes on": "go on", ended: "ended", cut: "cut" };
  let tree = null, step = 0, places = [], here = null;

  const name = (one) => shown(one.token);
  const onWay = (s, c) => tree.winner[s] === c;
  function way(s, c) {
    const path = [];
    for (let at = c; s >= 0; s--) { path.unshift([s, at]); at = tree.steps[s][at].parent; }
    return path;
  }
  const text = (s, c) => way(s, c).map(([at, place]) => tree.steps[at][place].token)
    .filter((token) => !/^<.+>$/.test(token)).join("").replaceAll("▁", " ").trim();

  function why(s, c) {
    const one = tree.steps[s][c], better = tree.steps[s].filter((other) => other.total > one.total);
    const went = better.filter((other) => other.fate === "goes on").length;
    if (one.fate === "cut") return `${went} better ones went on, and the beam has room for ${tree.beam}.`;
    if (one.fate === "goes on") {
      return `One of the ${tree.beam} best that do not end${onWay(s, c) ? ", and on the way of the translation that won." : "."}`;
    }
    if (onWay(s, c)) return `Finished with the score ${one.score.toFixed(4)}: ${tree.won_as}. It won.`;
    return `Finished with the score ${one.score.toFixed(4)}; the one that won has ${tree.won.toFixed(4)}.`;
  }
  function describe(s, c) {
    const one = tree.steps[s][c];
    tell("beam-readout", `Step ${s + 1}: `, [name(one)], ` ${one.log_prob.toFixed(4)}, in all ${one.total.toFixed(4)} nats; `
      + `${FATES[one.fate]}. ${why(s, c)} `, [text(s, c)]);
  }

  function draw() {
    if (!tree) return;
    const begin = Math.max(0, step + 1 - MOST), columns = tree.steps.slice(begin, step + 1);
    const canvas = $("tree"), path = new Set(here ? way(...here).map(String) : []);
    const most = Math.max(...columns.map((candidates) => candidates.length));
    const pen = sized(canvas, 24 + COLUMN * columns.length, 30 + ROW * most);
    places = [];
    const at = (s, c) => [18 + (s - begin) * COLUMN, 30 + c * ROW + ROW / 2];
    pen.font = `12px ${FONT}`;
    columns.forEach((candidates, column) => {
      const s = begin + column;
      pen.fillStyle = s === step ? accent(1) : styled("--quiet");
      pen.fillText(String(s + 1), 18 + column * COLUMN, 12);
      candidates.forEach((one, c) => {
        if (one.parent === null || !column) return;
        const [x, y] = at(s, c), [fromX, fromY] = at(s - 1, one.parent);
        const strong = onWay(s, c), lit = path.has(`${s},${c}`);
        if (one.fate === "cut" && s !== step && !lit) return;
        pen.strokeStyle = lit ? accent(1, "--less") : strong ? accent(1) : accent(one.fate === "cut" ? 0.15 : 0.35);
        pen.lineWidth = strong || lit ? 2 : 1;
        pen.beginPath();
        pen.moveTo(fromX + NODE - 6, fromY);
        pen.bezierCurveTo(fromX + NODE + 8, fromY, x - 18, y, x - 6, y);
        pen.stroke();
      });
    });
    columns.forEach((candidates, column) => candidates.forEach((one, c) => {
      const s = begin + column, [x, y] = at(s, c), strong = onWay(s, c), lit = here && here[0] === s && here[1] === c;
      const ended = one.fate === "ended", cut = one.fate === "cut";
      pen.fillStyle = strong ? accent(0.9) : ended ? accent(0.3, "--good") : cut ? accent(0.04) : accent(0.18);
      pen.beginPath();
      pen.roundRect(x - 4, y - ROW / 2 + 2, NODE, ROW - 5, 5);
      pen.fill();
      if (tree.greedy[s] === c && !strong) { pen.strokeStyle = accent(0.8, "--less"); pen.lineWidth = 1.5; pen.stroke(); }
      if (lit) { pen.strokeStyle = accent(1, "--less"); pen.lineWidth = 1.5; pen.stroke(); }
      pen.font = `${strong ? 600 : 400} 12px ${FONT}`;
      pen.fillStyle = strong ? styled("--on-accent") : cut ? styled("--quiet") : styled("--ink");
      pen.fillText(name(one), x, y, 60);
      pen.textAlign = "right";
      pen.font = `11px ${FONT}`;
      pen.fillText(one.total.toFixed(2), x + NODE - 8, y);
      pen.textAlign = "left";
      places.push({ s, c, x: x - 4, y: y - ROW / 2 });
    }));
  }

  function table() {
    const rows = tree.finished.map(([s, c]) => [s, c, tree.steps[s][c]]).sort((one, other) => other[2].score - one[2].score);
    const head = ["finished", "tokens", "log-probability", "score"];
    const made = rows.map(([s, c, one]) => {
      const row = document.createElement("tr");
      row.className = onWay(s, c) ? "won" : "";
      for (const value of [text(s, c), s + 1, one.total.toFixed(4), one.score.toFixed(4)]) row.insertCell().textContent = value;
      return row;
    });
    const top = document.createElement("tr");
    top.append(...head.map((value) => Object.assign(document.createElement("th"), { textContent: value })));
    $("beam-table").replaceChildren(top, ...made);
  }

  function go(next) {
    step = Math.max(0, Math.min(tree.steps.length - 1, next));
    here = null;
    $("beam-step").value = step + 1;
    $("beam-where").textContent = `step ${step + 1} of ${tree.steps.length}`;
    const counts = Object.keys(COUNTED).map((fate) => `${tree.steps[step].filter((one) => one.fate === fate).length} ${COUNTED[fate]}`);
    tell("beam-readout", `${counts.join(", ")}. Point at a candidate to see why.`);
    draw();
    $("tree").closest(".scroll").scrollLeft = 1e6;
  }
  function point(event) {
    const box = $("tree").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const found = places.find((one) => x >= one.x && x < one.x + NODE && y >= one.y && y < one.y + ROW);
    const next = found ? [found.s, found.c] : null;
    if (String(next) === String(here)) return;
    here = next;
    draw();
    if (here) describe(...here);
  }
  $("tree").addEventListener("pointermove", (event) => tree && point(event));
  $("tree").addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move && tree) { event.preventDefault(); go(step + move); }
  });
  $("beam-back").addEventListener("click", () => go(step - 1));
  $("beam-on").addEventListener("click", () => go(step + 1));
  $("beam-step").addEventListener("input", (event) => go(Number(event.target.value) - 1));

  return {
    show(sentence) {
      if (sentence.beam === tree) return;
      tree = sentence.beam;
      $("beam").hidden = !tree;
      if (!tree) return;
      $("beam-step").max = tree.steps.length;
      $("beam-note").textContent = `${tree.note} Candidates stand best first; those on the way of the winner are filled, `
        + "those that ended are green, and those that were cut are pale.";
      table();
      go(tree.steps.length - 1);
    },
    draw,
    where: (s, c) => { const one = places.find((other) => other.s === s && other.c === c); return { x: one.x + 40, y: one.y + 12 }; },
  };
})();
