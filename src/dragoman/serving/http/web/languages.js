// Selects of source and target language, and of the model where several translate the pair.

import { element, recall, remember } from "./dom.js";

const STORED = "dragoman-languages";
const DETECT = "Detect language";

export class LanguageChoice {
  #languages;
  #models;
  #names;
  #source;
  #target;
  #model;
  #swap;
  #detected = null;
  #wanted = null; // the target that was chosen, also while it is none of a detected language

  // Fill `container`. `onChange()` is called after each choice, `onSwap()` instead where both languages change places.
  constructor(container, { languages, models, onChange, onSwap = onChange }) {
    this.#languages = languages;
    this.#models = models;
    this.#names = namesOf(languages);
    const chosen = (fill) => () => {
      fill();
      this.#store();
      onChange();
    };
    this.#source = element("select", { "aria-label": "Source language", onchange: chosen(() => this.#fillTargets()) });
    this.#target = element("select", { "aria-label": "Target language", onchange: chosen(() => this.#chooseTarget()) });
    this.#model = element("select", { "aria-label": "Model", class: "model", onchange: () => onChange() });
    const swapped = () => {
      this.#swapLanguages();
      onSwap();
    };
    const label = { type: "button", class: "swap", "aria-label": "Swap languages", title: "Swap languages" };
    this.#swap = element("button", { ...label, onclick: swapped }, "⇄");
    this.#source.append(
      element("option", { value: "", text: DETECT }),
      ...languages.map(({ code }) => this.#option(code)),
    );
    this.recall();
    this.#store();
    container.append(this.#source, this.#swap, this.#target, this.#model);
  }

  // The language code that is chosen; null where it is to be detected.
  get source() {
    return this.#source.value || null;
  }

  // The source, or the language that was detected; null before that.
  get known() {
    return this.source ?? this.#detected;
  }

  get target() {
    return this.#target.value;
  }

  // The name of the model; undefined where only one translates the pair.
  get model() {
    return this.#model.value || undefined;
  }

  name(code) {
    return this.#names.get(code) ?? code;
  }

  showDetected(code) {
    if (this.source || code === this.#detected) return;
    this.#detected = code;
    this.#source.options[0].textContent = code ? `${this.name(code)} (detected)` : DETECT;
    this.#fillTargets();
  }

  // Take over what was chosen in another tab; without such a choice, the first pair of the models.
  recall() {
    const [from, to] = (recall(STORED) ?? "?").split(" ");
    const isKnown = [...this.#source.options].some((one) => one.value === from);
    this.#choose(isKnown ? from : "", isKnown ? to : this.#models.flatMap(({ pairs }) => pairs)[0]?.[1]);
  }

  #store() {
    remember(STORED, `${this.#source.value} ${this.target}`);
  }

  #choose(from, to) {
    this.#source.value = from;
    this.#wanted = to;
    this.#fillTargets();
  }

  #chooseTarget() {
    this.#wanted = this.target;
    this.#fillModels();
  }

  #swapLanguages() {
    this.#choose(this.target, this.known);
    this.#store();
    this.#swap.classList.remove("turned");
    void this.#swap.offsetWidth; // starts the turn again
    this.#swap.classList.add("turned");
  }

  #targetsOf(code) {
    const all = this.#languages.filter((one) => !code || one.code === code).flatMap(({ targets }) => targets);
    return [...new Set(all)].sort((a, b) => this.name(a).localeCompare(this.name(b)));
  }

  #fillTargets() {
    const codes = this.#targetsOf(this.known);
    this.#target.replaceChildren(...codes.map((code) => this.#option(code)));
    if (codes.includes(this.#wanted)) this.#target.value = this.#wanted;
    this.#fillModels();
  }

  #fillModels() {
    const before = this.#model.value;
    const isAble = (one) => one.pairs.some(([from, to]) => from === this.known && to === this.target);
    const able = this.#models.filter(isAble);
    const shown = able.length > 1 ? able : [];
    this.#model.replaceChildren(...shown.map(({ name }) => element("option", { value: name, text: name })));
    if (shown.some((one) => one.name === before)) this.#model.value = before;
    this.#model.hidden = !shown.length;
    this.#swap.disabled = !this.known || !this.#targetsOf(this.target).includes(this.known);
  }

  #option(code) {
    return element("option", { value: code, text: this.name(code) });
  }
}

// The names of all languages; the server names source languages only.
function namesOf(languages) {
  const targets = languages.flatMap((one) => one.targets).map((code) => [code, nameOf(code)]);
  return new Map([...targets, ...languages.map(({ code, name }) => [code, name])]);
}

function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
