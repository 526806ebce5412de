// Tree of a beam search: one column per step, one node per candidate, and lines from parents to children.
// Browsers limit the size of a canvas, so that only the last columns of long searches are drawn.
const beam = (() => {
  const ROW = 26, NODE = 106, COLUMN = 126, MAX_COLUMNS = 60;
  const OUTCOMES = { continued: "continued", finished: "finished", pruned: "pruned" };
  let tree = null, step = 0, nodes = [], selected = null;

  const label = (candidate) => displayToken(candidate.token);
  const isBest = (s, c) => tree.best_path[s] === c;
  function path(s, c) {
    const found = [];
    for (let at = c; s >= 0; s--) { found.unshift([s, at]); at = tree.steps[s][at].parent; }
    return found;
  }
  const text = (s, c) => joinTokens(path(s, c).map(([at, index]) => tree.steps[at][index].token));

  function reason(s, c) {
    const one = tree.steps[s][c];
    if (one.outcome === "pruned") {
      const better = tree.steps[s].filter((other) => other.total > one.total && other.outcome === "continued").length;
      return `${better} better candidates were continued; the beam size is ${tree.beam_size}.`;
    }
    if (one.outcome === "continued") {
      return `One of the ${tree.beam_size} best unfinished candidates${isBest(s, c) ? ", on the path of the best output." : "."}`;
    }
    if (isBest(s, c)) return `Score ${decimals(one.score, 4)}: ${tree.method}.`;
    return `Score ${decimals(one.score, 4)}; the best output has ${decimals(tree.best_score, 4)}.`;
  }
  function describe(s, c) {
    const one = tree.steps[s][c];
    setReadout("beam-readout", `Step ${s + 1}: `, [label(one)], ` ${decimals(one.log_prob, 4)}, total ${decimals(one.total, 4)} nats; `
      + `${OUTCOMES[one.outcome]}. ${reason(s, c)} `, [text(s, c)]);
  }

  function draw() {
    if (!tree) return;
    const first = Math.max(0, step + 1 - MAX_COLUMNS), columns = tree.steps.slice(first, step + 1);
    const canvas = $("tree"), highlighted = new Set(selected ? path(...selected).map(String) : []);
    const rows = Math.max(...columns.map((candidates) => candidates.length));
    const pen = resize(canvas, 24 + COLUMN * columns.length, 30 + ROW * rows);
    nodes = [];
    const position = (s, c) => [18 + (s - first) * COLUMN, 30 + c * ROW + ROW / 2];
    pen.font = `12px ${FONT}`;
    columns.forEach((candidates, column) => {
      const s = first + column;
      pen.fillStyle = s === step ? tint(1) : color("--quiet");
      pen.fillText(String(s + 1), 18 + column * COLUMN, 12);
      candidates.forEach((one, c) => {
        if (one.parent === null || !column) return;
        const [x, y] = position(s, c), [fromX, fromY] = position(s - 1, one.parent);
        const best = isBest(s, c), lit = highlighted.has(`${s},${c}`), pruned = one.outcome === "pruned";
        if (pruned && s !== step && !lit) return;
        pen.strokeStyle = lit ? tint(1, "--less") : best ? tint(1) : tint(pruned ? 0.15 : 0.35);
        pen.lineWidth = best || lit ? 2 : 1;
        pen.beginPath();
        pen.moveTo(fromX + NODE - 6, fromY);
        pen.bezierCurveTo(fromX + NODE + 8, fromY, x - 18, y, x - 6, y);
        pen.stroke();
      });
    });
    columns.forEach((candidates, column) => candidates.forEach((one, c) => {
      const s = first + column, [x, y] = position(s, c), best = isBest(s, c);
      const finished = one.outcome === "finished", pruned = one.outcome === "pruned";
      pen.fillStyle = best ? tint(0.9) : finished ? tint(0.3, "--good") : pruned ? tint(0.04) : tint(0.18);
      pen.beginPath();
      pen.roundRect(x - 4, y - ROW / 2 + 2, NODE, ROW - 5, 5);
      pen.fill();
      pen.lineWidth = 1.5;
      if (tree.greedy_path[s] === c && !best) { pen.strokeStyle = tint(0.8, "--less"); pen.stroke(); }
      if (selected && selected[0] === s && selected[1] === c) { pen.strokeStyle = tint(1, "--less"); pen.stroke(); }
      pen.font = `${best ? 600 : 400} 12px ${FONT}`;
      pen.fillStyle = best ? color("--on-accent") : pruned ? color("--quiet") : color("--ink");
      pen.fillText(label(one), x, y, 60);
      pen.textAlign = "right";
      pen.font = `11px ${FONT}`;
      pen.fillText(decimals(one.total, 2), x + NODE - 8, y);
      pen.textAlign = "left";
      nodes.push({ s, c, x: x - 4, y: y - ROW / 2 });
    }));
  }

  function showTable() {
    const rows = tree.finished.map(([s, c]) => [s, c, tree.steps[s][c]]).sort((one, other) => other[2].score - one[2].score);
    const head = element("tr");
    head.append(...["finished output", "tokens", "log-probability", "score"].map((name) => element("th", name)));
    $("beam-table").replaceChildren(head, ...rows.map(([s, c, one]) => {
      const row = element("tr", "", isBest(s, c) ? "best" : "");
      for (const value of [text(s, c), s + 1, decimals(one.total, 4), decimals(one.score, 4)]) row.insertCell().textContent = value;
      return row;
    }));
  }

  function showStep(next) {
    step = Math.max(0, Math.min(tree.steps.length - 1, next));
    selected = null;
    $("beam-step").value = step + 1;
    $("beam-position").textContent = `step ${step + 1} of ${tree.steps.length}`;
    const counts = Object.keys(OUTCOMES).map((outcome) =>
      `${tree.steps[step].filter((one) => one.outcome === outcome).length} ${outcome}`);
    setReadout("beam-readout", `${counts.join(", ")}. Point at a candidate to see why.`);
    draw();
    $("tree").closest(".scroll").scrollLeft = 1e6;
  }
  function selectAt(event) {
    const box = $("tree").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const node = nodes.find((one) => x >= one.x && x < one.x + NODE && y >= one.y && y < one.y + ROW);
    const next = node ? [node.s, node.c] : null;
    if (String(next) === String(selected)) return;
    selected = next;
    draw();
    if (selected) describe(...selected);
  }
  $("tree").addEventListener("pointermove", (event) => tree && selectAt(event));
  $("tree").addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move && tree) { event.preventDefault(); showStep(step + move); }
  });
  $("beam-previous").addEventListener("click", () => showStep(step - 1));
  $("beam-next").addEventListener("click", () => showStep(step + 1));
  $("beam-step").addEventListener("input", (event) => showStep(Number(event.target.value) - 1));

  return {
    show(sentence) {
      if (sentence.beam === tree) return;
      tree = sentence.beam;
      $("beam").hidden = !tree;
      if (!tree) return;
      $("beam-step").max = tree.steps.length;
      $("beam-note").textContent = `${tree.note} Candidates are sorted by log-probability. The path of the best output is `
        + "filled, finished candidates are green, and pruned candidates are pale.";
      showTable();
      showStep(tree.steps.length - 1);
    },
    draw,
    nodeCenter(s, c) {
      const node = nodes.find((one) => one.s === s && one.c === c);
      return { x: node.x + 40, y: node.y + 12 };
    },
  };
})();
