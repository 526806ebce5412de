// Start of the page: which tabs the models of the server make possible, the key, and the theme.

import { startAnswer } from "./answer.js";
import { apiKey, get, onKeyRefused } from "./api.js";
import { openBeam, startBeam } from "./beam.js";
import { startClassify } from "./classify.js";
import { startComplete } from "./complete.js";
import { $, arrowKeys, element, recall, remember } from "./dom.js";
import { openFiles, startFiles } from "./files.js";
import { startTranslate } from "./translate.js";

const TABS = [
  { name: "translate", kind: "translator", start: startTranslate },
  { name: "files", kind: "translator", start: startFiles, open: openFiles },
  { name: "beam", kind: "translator", start: startBeam, open: openBeam },
  { name: "complete", kind: "generator", start: startComplete },
  { name: "classify", kind: "classifier", start: startClassify },
  { name: "answer", kind: "question_answerer", start: startAnswer },
];
const THEME = "dragoman-theme";

async function start() {
  const settings = await get("frontend/settings");
  $("key-form").hidden = !settings.keyRequired || apiKey.value !== "";
  if (!$("key-form").hidden) return;
  const [languages, { models }] = await Promise.all([get("languages"), get("api/models")]);
  const kinds = new Set(models.map((one) => one.kind));
  const tabs = TABS.filter((one) => kinds.has(one.kind));
  $("models").textContent = models.map((one) => one.name).join(" · ");
  if (!tabs.length) {
    say("This server has no model that this page can use. Start it with one: dragoman serve RUN");
    return;
  }
  for (const tab of tabs) tab.start({ settings, languages, models });
  document.querySelector(".tabs").replaceChildren(...tabs.map(tabButton));
  arrowKeys(document.querySelector(".tabs"), () => [...document.querySelectorAll(".tabs button")]);
  const named = () => tabs.find((one) => `#${one.name}` === location.hash) ?? tabs[0];
  addEventListener("hashchange", () => show(named()));
  show(named());
}

function tabButton(tab) {
  const { name } = tab;
  return element("button", {
    type: "button",
    role: "tab",
    id: `tab-${name}`,
    "aria-controls": `panel-${name}`,
    text: $(`panel-${name}`).dataset.title,
    onclick: () => go(tab),
    onfocus: () => go(tab),
  });
}

function go(tab) {
  if (location.hash !== `#${tab.name}`) history.replaceState(null, "", `#${tab.name}`);
  show(tab);
}

function show(tab) {
  for (const button of document.querySelectorAll(".tabs button")) {
    const isShown = button.id === `tab-${tab.name}`;
    button.setAttribute("aria-selected", isShown);
    button.tabIndex = isShown ? 0 : -1;
    $(button.getAttribute("aria-controls")).hidden = !isShown;
  }
  $(`tab-${tab.name}`).scrollIntoView({ block: "nearest", inline: "nearest" });
  tab.open?.();
}

function say(text) {
  $("notice").hidden = false;
  $("notice").textContent = text;
}

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (recall(THEME) || (system.matches ? "dark" : "light")) === "dark";
  const apply = () => {
    document.documentElement.style.colorScheme = isDark() ? "dark" : "light";
    $("theme").setAttribute("aria-pressed", isDark());
  };
  $("theme").addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    remember(THEME, (next === "dark") === system.matches ? "" : next); // empty: follow the system
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

onKeyRefused.call = (message) => {
  $("key-error").textContent = apiKey.value ? message : "";
  apiKey.value = "";
  $("key-form").hidden = false;
};
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  apiKey.value = $("key").value.trim();
  $("key").value = "";
  location.reload();
});
startTheme();
start().catch((error) => $("key-form").hidden && say(error.message));
