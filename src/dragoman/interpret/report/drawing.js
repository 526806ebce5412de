const $ = (id) => document.getElementById(id);
// Readable form of a token; a single space gets a visible symbol.
const displayToken = (token) => (token.replaceAll("▁", " ").trim() || (token.includes("▁") ? "␣" : token));

// A number with this many decimals; one that is rounded to zero has no sign.
const decimals = (value, digits) => value.toFixed(digits).replace(/^-(?=[0.]*$)/, "");

// Elements, lists of tokens, and text.
const element = (name, text = "", className = "") =>
  Object.assign(document.createElement(name), { textContent: text, className });
const joinTokens = (tokens) => tokens.filter((token) => !/^<.+>$/.test(token)).join("").replaceAll("▁", " ").trim();

// Packed arrays.
function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const fractions = packed.kind === "u2";
  const numbers = fractions ? new Uint16Array(bytes.buffer) : new Float32Array(bytes.buffer);
  const [s0, s1 = 0, s2 = 0, s3 = 0] = packed.shape.map((_, axis) => packed.shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  const unit = fractions ? 65535 : 1;
  const at = (a, b = 0, c = 0, d = 0) => numbers[a * s0 + b * s1 + c * s2 + d * s3] / unit;
  return { shape: packed.shape, at };
}
const arrays = new Map();
const array = (packed) => {
  if (!arrays.has(packed)) arrays.set(packed, unpack(packed));
  return arrays.get(packed);
};

// Colors are CSS variables, which depend on the theme; they are cached, because every cell needs them.
const colors = new Map();
const color = (name) => {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
};
const tint = (alpha, name = "--accent") => `rgb(${color(name)} / ${alpha})`;
const shade = (value) => Math.sqrt(Math.max(0, Math.min(1, value)));

function button(text, pressed, onClick, title) {
  const one = element("button", text);
  one.type = "button";
  one.setAttribute("aria-pressed", pressed);
  if (title) one.title = title;
  one.addEventListener("click", onClick);
  return one;
}
function choices(id, label, options, selected, onSelect) {
  const parts = label ? [element("span", label)] : [];
  for (const [value, text, title] of options) {
    const one = button(text, value === selected, () => onSelect(value), title);
    one.dataset.value = value;
    parts.push(one);
  }
  $(id).replaceChildren(...parts);
}

// Resize a canvas for the pixel ratio of the screen, and return its context.
function resize(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  return pen;
}
const FONT = "ui-sans-serif, system-ui, sans-serif";
const availableWidth = (canvas) => Math.max(220, canvas.closest(".scroll").clientWidth);

// Image with one pixel per cell; a tone from -1 to 1 is the strength of the color.
const MIN_TONE = 0.03;
const toneColor = (tone) => tint(decimals(Math.max(MIN_TONE, Math.abs(tone)), 3), tone < 0 ? "--less" : "--accent");
function image(rows, columns, tone) {
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.max(1, columns), height: Math.max(1, rows) });
  const pen = canvas.getContext("2d"), pixels = pen.createImageData(canvas.width, canvas.height);
  const [positive, negative] = ["--accent", "--less"].map((name) => color(name).split(" ").map(Number));
  for (let r = 0, offset = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++, offset += 4) {
      const one = tone(r, c);
      pixels.data.set(one < 0 ? negative : positive, offset);
      pixels.data[offset + 3] = 255 * Math.max(MIN_TONE, Math.abs(one));
    }
  }
  pen.putImageData(pixels, 0, 0);
  return canvas;
}

// Grid of cells with row and column labels. Hovering over a cell selects it; arrow keys move the selection.
function grid(canvas, onSelect) {
  let view = null, selected = null, layout = null, cells = null;
  function draw() {
    if (!view) return;
    const { rows, columns } = view;
    const probe = canvas.getContext("2d");
    probe.font = `13px ${FONT}`;
    const longest = (names) => Math.min(150, Math.max(0, ...names.map((name) => probe.measureText(name).width)));
    const left = Math.ceil(longest(rows)) + 12, top = Math.ceil(longest(columns) * 0.87) + 18;
    const smallest = columns.length <= 80 ? 10 : 4; // labels need 9 pixels; long sentences are scrolled
    const cell = Math.max(smallest, Math.min(view.maxCell || 30, Math.floor((availableWidth(canvas) - left - 24) / Math.max(1, columns.length))));
    const size = Math.min(13, Math.max(0, cell - 1)), labeled = cell >= 9;
    const pen = resize(canvas, left + cell * columns.length + 70, top + cell * rows.length + 6);
    layout = { left, top, cell };
    pen.fillStyle = color("--ink");
    const write = (name, x, y, angle, strong) => {
      pen.save();
      pen.translate(x, y);
      pen.rotate(angle);
      pen.font = `${strong ? 600 : 400} ${Math.max(size, strong ? 12 : 0)}px ${FONT}`;
      pen.fillStyle = strong ? tint(1) : color("--ink");
      pen.textAlign = angle ? "left" : "right";
      pen.fillText(name, 0, 0, 150);
      pen.restore();
    };
    columns.forEach((name, c) => {
      const strong = selected && selected[1] === c;
      if (labeled || strong) write(name, left + cell * (c + 0.5), top - 6, -Math.PI / 3, strong);
    });
    rows.forEach((name, r) => {
      const strong = selected && selected[0] === r;
      if (labeled || strong) write(name, left - 6, top + cell * (r + 0.5), 0, strong);
    });
    paint(pen, left, top, cell);
    if (selected) {
      pen.strokeStyle = tint(0.9);
      pen.lineWidth = 1;
      pen.strokeRect(left - 0.5, top + selected[0] * cell - 0.5, cell * columns.length, cell);
      pen.strokeRect(left + selected[1] * cell - 0.5, top - 0.5, cell, cell * rows.length);
    }
  }
  // Large grids are one cached image; small ones are drawn cell by cell, with gaps and frames.
  function paint(pen, left, top, cell) {
    const { rows, columns, tone, framed } = view;
    if (cell <= 7) {
      const theme = document.documentElement.dataset.theme;
      if (!cells || cells.theme !== theme) cells = Object.assign(image(rows.length, columns.length, tone), { theme });
      pen.imageSmoothingEnabled = false;
      pen.drawImage(cells, left, top, cell * columns.length, cell * rows.length);
    }
    for (let r = 0; r < rows.length && (cell > 7 || framed); r++) {
      for (let c = 0; c < columns.length; c++) {
        const gap = cell > 7 ? 1 : 0;
        if (gap) {
          pen.fillStyle = toneColor(tone(r, c));
          pen.fillRect(left + c * cell, top + r * cell, cell - gap, cell - gap);
        }
        if (framed && framed(r, c)) {
          const inset = gap ? 1.5 : 0.5;
          pen.strokeStyle = color("--ink");
          pen.lineWidth = gap ? 1.5 : 1;
          pen.strokeRect(left + c * cell + inset, top + r * cell + inset, cell - gap - 2 * inset, cell - gap - 2 * inset);
        }
      }
    }
  }
  function select(next) {
    if (next && selected && next[0] === selected[0] && next[1] === selected[1]) return;
    selected = next;
    draw();
    onSelect(next, view);
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!layout || !view) return;
    const box = canvas.getBoundingClientRect();
    const c = Math.floor((event.clientX - box.left - layout.left) / layout.cell);
    const r = Math.floor((event.clientY - box.top - layout.top) / layout.cell);
    select(r >= 0 && c >= 0 && r < view.rows.length && c < view.columns.length ? [r, c] : null);
  });
  canvas.addEventListener("pointerleave", () => select(null));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move || !view || !view.rows.length) return;
    event.preventDefault();
    const [r, c] = selected || [0, 0];
    select([Math.max(0, Math.min(view.rows.length - 1, r + move[0])),
      Math.max(0, Math.min(view.columns.length - 1, c + move[1]))]);
  });
  return {
    show(next) { view = next; selected = cells = null; draw(); onSelect(null, view); },
    draw,
    cellCenter: (r, c) => ({ x: layout.left + (c + 0.5) * layout.cell, y: layout.top + (r + 0.5) * layout.cell }),
  };
}

// Theme: that of the system until the user chooses one.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
function setUpTheme(redraw) {
  let chosen = null, timer = null;
  function applyTheme() {
    const now = chosen || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    colors.clear();
    $("theme").textContent = now === "dark" ? "light" : "dark";
    redraw();
  }
  $("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    applyTheme();
  });
  dark.addEventListener("change", applyTheme);
  window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 80); });
  applyTheme();
}
