const $ = (id) => document.getElementById(id);
// A piece of a word as people read it; a space alone has a sign.
const shown = (token) => (token.replaceAll("▁", " ").trim() || (token.includes("▁") ? "␣" : token));

// Arrays: packed numbers by shape.
function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const shares = packed.kind === "u2";
  const numbers = shares ? new Uint16Array(bytes.buffer) : new Float32Array(bytes.buffer);
  const [s0, s1 = 0, s2 = 0, s3 = 0] = packed.shape.map((_, axis) => packed.shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  const full = shares ? 65535 : 1;
  const at = (a, b = 0, c = 0, d = 0) => numbers[a * s0 + b * s1 + c * s2 + d * s3] / full;
  return { shape: packed.shape, at };
}
const opened = new Map();
const array = (packed) => {
  if (!opened.has(packed)) opened.set(packed, unpacked(packed));
  return opened.get(packed);
};

// Colours come from the style, so that light and dark follow it; what is asked for in every cell is remembered.
const colours = new Map();
const styled = (name) => {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
};
const accent = (alpha, name = "--accent") => `rgb(${styled(name)} / ${alpha})`;
const shade = (value) => Math.sqrt(Math.max(0, Math.min(1, value)));

function button(text, pressed, act, title) {
  const one = document.createElement("button");
  one.type = "button";
  one.textContent = text;
  one.setAttribute("aria-pressed", pressed);
  if (title) one.title = title;
  one.addEventListener("click", act);
  return one;
}
function choices(id, label, options, chosen, act) {
  const parts = label ? [Object.assign(document.createElement("span"), { textContent: label })] : [];
  for (const [value, text, title] of options) {
    const one = button(text, value === chosen, () => act(value), title);
    one.dataset.value = value;
    parts.push(one);
  }
  $(id).replaceChildren(...parts);
}

// A canvas of the width there is, sharp on every screen.
function sized(canvas, width, height) {
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
const room = (canvas) => Math.max(220, canvas.closest(".scroll").clientWidth);

// Many cells as a picture of one pixel each: a tone from -1 to 1 is how strong its colour is.
const LEAST = 0.03;
const tinted = (tone) => accent(Math.max(LEAST, Math.abs(tone)).toFixed(3), tone < 0 ? "--less" : "--accent");
function picture(rows, columns, tone) {
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.max(1, columns), height: Math.max(1, rows) });
  const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height);
  const [more, less] = ["--accent", "--less"].map((name) => styled(name).split(" ").map(Number));
  for (let r = 0, place = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++, place += 4) {
      const one = tone(r, c);
      image.data.set(one < 0 ? less : more, place);
      image.data[place + 3] = 255 * Math.max(LEAST, Math.abs(one));
    }
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

// A grid of cells with names on two sides; pointing at a cell tells it, arrows move from cell to cell.
function grid(canvas, on) {
  let view = null, here = null, place = null, cells = null;
  function draw() {
    if (!view) return;
    const { rows, columns } = view;
    const probe = canvas.getContext("2d");
    probe.font = `13px ${FONT}`;
    const longest = (names) => Math.min(150, Math.max(0, ...names.map((name) => probe.measureText(name).width)));
    const left = Math.ceil(longest(rows)) + 12, top = Math.ceil(longest(columns) * 0.87) + 18;
    const least = columns.length <= 80 ? 10 : 4; // names can be read at 9; longer sentences are scrolled or pointed at
    const cell = Math.max(least, Math.min(view.most || 30, Math.floor((room(canvas) - left - 24) / Math.max(1, columns.length))));
    const size = Math.min(13, Math.max(0, cell - 1)), named = cell >= 9;
    const pen = sized(canvas, left + cell * columns.length + 70, top + cell * rows.length + 6);
    place = { left, top, cell };
    pen.fillStyle = styled("--ink");
    const write = (name, x, y, angle, strong) => {
      pen.save();
      pen.translate(x, y);
      pen.rotate(angle);
      pen.font = `${strong ? 600 : 400} ${Math.max(size, strong ? 12 : 0)}px ${FONT}`;
      pen.fillStyle = strong ? accent(1) : styled("--ink");
      pen.textAlign = angle ? "left" : "right";
      pen.fillText(name, 0, 0, 150);
      pen.restore();
    };
    columns.forEach((name, c) => {
      const strong = here && here[1] === c;
      if (named || strong) write(name, left + cell * (c + 0.5), top - 6, -Math.PI / 3, strong);
    });
    rows.forEach((name, r) => {
      const strong = here && here[0] === r;
      if (named || strong) write(name, left - 6, top + cell * (r + 0.5), 0, strong);
    });
    paint(pen, left, top, cell);
    if (here) {
      pen.strokeStyle = accent(0.9);
      pen.lineWidth = 1;
      pen.strokeRect(left - 0.5, top + here[0] * cell - 0.5, cell * columns.length, cell);
      pen.strokeRect(left + here[1] * cell - 0.5, top - 0.5, cell, cell * rows.length);
    }
  }
  // Large grids are a picture that is made once; small ones are drawn cell by cell, with room between and marks.
  function paint(pen, left, top, cell) {
    const { rows, columns, tone, mark } = view;
    if (cell <= 7) {
      const theme = document.documentElement.dataset.theme;
      if (!cells || cells.theme !== theme) cells = Object.assign(picture(rows.length, columns.length, tone), { theme });
      pen.imageSmoothingEnabled = false;
      pen.drawImage(cells, left, top, cell * columns.length, cell * rows.length);
    }
    for (let r = 0; r < rows.length && (cell > 7 || mark); r++) {
      for (let c = 0; c < columns.length; c++) {
        const gap = cell > 7 ? 1 : 0;
        if (gap) {
          pen.fillStyle = tinted(tone(r, c));
          pen.fillRect(left + c * cell, top + r * cell, cell - gap, cell - gap);
        }
        if (mark && mark(r, c)) {
          const inside = gap ? 1.5 : 0.5;
          pen.strokeStyle = styled("--ink");
          pen.lineWidth = gap ? 1.5 : 1;
          pen.strokeRect(left + c * cell + inside, top + r * cell + inside, cell - gap - 2 * inside, cell - gap - 2 * inside);
        }
      }
    }
  }
  function point(next) {
    if (next && here && next[0] === here[0] && next[1] === here[1]) return;
    here = next;
    draw();
    on(next, view);
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!place || !view) return;
    const box = canvas.getBoundingClientRect();
    const c = Math.floor((event.clientX - box.left - place.left) / place.cell);
    const r = Math.floor((event.clientY - box.top - place.top) / place.cell);
    point(r >= 0 && c >= 0 && r < view.rows.length && c < view.columns.length ? [r, c] : null);
  });
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move || !view || !view.rows.length) return;
    event.preventDefault();
    const [r, c] = here || [0, 0];
    point([Math.max(0, Math.min(view.rows.length - 1, r + move[0])),
      Math.max(0, Math.min(view.columns.length - 1, c + move[1]))]);
  });
  return {
    show(next) { view = next; here = cells = null; draw(); on(null, view); },
    draw,
    where: (r, c) => ({ x: place.left + (c + 0.5) * place.cell, y: place.top + (r + 0.5) * place.cell }),
  };
}

// Light and dark: as the system has it, until someone chooses.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
function themed(redraw) {
  let chosen = null, waiting = null;
  function theme() {
    const now = chosen || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    colours.clear();
    $("theme").textContent = now === "dark" ? "light" : "dark";
    redraw();
  }
  $("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    theme();
  });
  dark.addEventListener("change", theme);
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 80); });
  theme();
}
