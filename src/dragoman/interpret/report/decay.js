// Decay of the memory of an SSRU: the mean weight of the token read 0, 1, 2, … positions ago, one curve per group of
// features.
function decayCurves(packed, layer) {
  const weights = array(packed), [, groups, rows] = weights.shape;
  return range(groups).map((group) => range(rows).map((age) => {
    let sum = 0;
    for (let row = age; row < rows; row++) sum += weights.at(layer, group, row, row - age);
    return sum / (rows - age);
  }));
}
function drawDecay(packed, layer, selected) {
  const canvas = $("decay-curves"), curves = decayCurves(packed, layer), ages = curves[0].length;
  const left = 34, top = 8, height = 130, step = Math.max(8, Math.min(36, (availableWidth(canvas) - left - 90) / Math.max(1, ages - 1)));
  const width = step * Math.max(1, ages - 1), largest = Math.max(1e-9, ...curves.flat());
  const pen = resize(canvas, left + width + 90, top + height + 36);
  const x = (age) => left + age * step, y = (weight) => top + height * (1 - weight / largest);
  pen.font = `12px ${FONT}`;
  pen.strokeStyle = color("--line");
  pen.strokeRect(left, top, width, height);
  pen.fillStyle = color("--quiet");
  pen.textAlign = "right";
  for (const weight of [0, largest / 2, largest]) pen.fillText(decimals(weight, 2), left - 6, y(weight));
  pen.textAlign = "center";
  const every = Math.ceil(24 / step);
  for (let age = 0; age < ages; age += every) pen.fillText(String(age), x(age), top + height + 12);
  pen.fillText("positions ago", left + width / 2, top + height + 28);
  curves.forEach((curve, group) => {
    const chosen = typeof selected !== "number" || group === selected;
    pen.strokeStyle = tint(decimals(chosen ? 0.25 + 0.75 * (group + 1) / curves.length : 0.12, 3));
    pen.lineWidth = group === selected ? 2.5 : 1.5;
    pen.beginPath();
    curve.forEach((weight, age) => pen.lineTo(x(age), y(weight)));
    pen.stroke();
  });
  pen.lineWidth = 1;
}
// Show the curves next to the map of an SSRU, and nothing next to other maps.
function showDecay(one, kind, layer, selected) {
  $("decay").hidden = kind !== "ssru";
  if (kind === "ssru") drawDecay(one.weights.ssru, layer, selected);
}
