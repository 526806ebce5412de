// Elements, and work that newer work overtakes.

export const $ = (id) => document.getElementById(id);

// An element with properties (`class`, `text`, attributes, and handlers such as `onclick`) and children.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) made.style.setProperty(key, value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// Values that the browser keeps for this page; browsers may refuse to.
export const recall = (name) => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};
export const remember = (name, value) => {
  try {
    localStorage.setItem(name, value);
  } catch {
    /* chosen again next time */
  }
};

const pause = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(signal.reason);
      },
      { once: true },
    );
  });

// Return a function that runs `work(signal)` after a delay. Newer work aborts the work before it, and removes its error
// from the element `error`. `clear()` removes results that an error or the end of all work leaves behind, and `onBusy(isBusy)`
// is called at the beginning and the end.
export function latest({ delay = 0, error, clear = () => {}, onBusy = () => {} }) {
  let current = null;
  const run = async (work, { soon = false } = {}) => {
    current?.abort();
    error.textContent = "";
    const mine = new AbortController();
    current = mine;
    try {
      if (delay && !soon) await pause(delay, mine.signal);
      onBusy(true);
      await work(mine.signal);
    } catch (reason) {
      if (current === mine && reason.name !== "AbortError") {
        error.textContent = reason.message;
        clear();
      }
    } finally {
      if (current === mine) {
        current = null;
        onBusy(false);
      }
    }
  };
  run.stop = () => {
    current?.abort();
    current = null;
    error.textContent = "";
    onBusy(false);
    clear();
  };
  return run;
}

// Let the arrow keys, Home and End move the focus among the elements `items()` of a container, which is one tab stop.
export function arrowKeys(container, items, { vertical = false } = {}) {
  container.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const isRtl = !vertical && getComputedStyle(container).direction === "rtl" ? -1 : 1;
    const moves = vertical ? { ArrowUp: -1, ArrowDown: 1 } : { ArrowLeft: -isRtl, ArrowRight: isRtl };
    const next = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : at + (moves[event.key] ?? NaN);
    if (!(next >= 0 && next < all.length)) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    all[next].tabIndex = 0;
    all[next].focus();
  });
}

export const percent = (share) => (share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);
export const seconds = (since) => `${((performance.now() - since) / 1000).toFixed(2)} s`;
