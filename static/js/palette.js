// The command palette: Ctrl+K or / opens it. The server finds pages and objects; the actions are those of the page.

import { counted } from "./counts.js";

const palette = document.getElementById("palette");
const input = document.getElementById("palette-input");
const actions = document.getElementById("palette-actions");
const results = document.getElementById("palette-results");
const status = document.getElementById("palette-status");
// What a person can do on the page. Pages are found by the server.
const ACTIONS = "a.button[href], button, :is(.tabs, .views, .filters, .jumps) a[href]";
const OTHERS = "#palette, .header-links a, .skip-link";
const MAX_ACTIONS = 12;

const options = () => [...palette.querySelectorAll("[role=option]")];
const selected = () => palette.querySelector('[role=option][aria-selected="true"]');

/** Returns what an element is called, with the label of its group if it would say little alone. */
function labelOf(element) {
  const group = element.matches(".jumps a") ? element.parentElement.getAttribute("aria-label") : "";
  return `${group} ${element.getAttribute("aria-label") ?? element.innerText}`.replace(/\s+/g, " ").trim();
}

/** Returns the visible actions of the page with these words, each label once. */
function actionsWith(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Map();
  const inHeader = (element) => Number(element.closest(".header") !== null);
  const elements = [...document.querySelectorAll(ACTIONS)].sort((one, other) => inHeader(one) - inHeader(other));
  for (const element of elements) {
    if (element.disabled || element.closest(OTHERS) || !element.checkVisibility({ visibilityProperty: true })) continue;
    const label = labelOf(element);
    if (label && !found.has(label) && words.every((word) => label.toLowerCase().includes(word))) found.set(label, element);
  }
  return [...found].slice(0, MAX_ACTIONS);
}

function showActions() {
  const shown = actionsWith(input.value).map(([label, element]) => {
    const option = document.createElement("div");
    option.className = "palette-option";
    option.role = "option";
    option.ariaSelected = "false";
    option.textContent = label;
    option.addEventListener("click", () => run(element));
    return option;
  });
  const title = document.createElement("div");
  title.className = "palette-title";
  title.ariaHidden = "true";
  title.textContent = actions.dataset.title;
  actions.replaceChildren(...(shown.length ? [title, ...shown] : []));
  actions.hidden = shown.length === 0;
}

function run(element) {
  palette.close();
  element.focus();
  element.click();
}

function select(option) {
  const before = selected();
  if (before) before.ariaSelected = "false";
  if (!option) return input.removeAttribute("aria-activedescendant");
  option.ariaSelected = "true";
  option.id ||= `palette-option-${options().indexOf(option)}`;
  input.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

/** Numbers the options again and selects the first, after either list has changed. */
function refresh() {
  options().forEach((option, index) => (option.id = `palette-option-${index}`));
  select(options()[0]);
  const count = options().length;
  status.textContent = count === 0 ? status.dataset.none : counted(status, count);
}

function open() {
  input.value = "";
  palette.showModal();
  input.focus();
  showActions();
  refresh();
  input.dispatchEvent(new Event("palette"));
}

function move(event) {
  const all = options();
  const at = all.indexOf(selected());
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(at + 8, all.length - 1), PageUp: Math.max(at - 8, 0) }[event.key];
  if (to === undefined || all.length === 0) return;
  event.preventDefault();
  select(all[(to + all.length) % all.length]);
}

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
  event.preventDefault();
  if (palette.open) palette.close();
  else if (!document.querySelector("dialog[open]")) open();
});

input?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.isComposing) {
    event.preventDefault();
    selected()?.click();
  } else move(event);
});
input?.addEventListener("input", () => {
  showActions();
  refresh();
});
if (results) new MutationObserver(refresh).observe(results, { childList: true });
palette?.addEventListener("click", ({ target }) => target === palette && palette.close());
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey || !palette) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
  event.preventDefault();
  open();
});

// A run's page has a list of its own.
document.addEventListener("keydown", (event) => {
  if (event.key !== "?" || event.ctrlKey || event.altKey || event.metaKey || document.getElementById("keys")) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
  event.preventDefault();
  document.getElementById("page-keys")?.showModal();
});
