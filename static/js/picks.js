// Checkpoints and runs that are picked for a comparison: with Ctrl-click in a run's list, or with c on any link to one.

import { announce } from "./announce.js";
import { counted } from "./counts.js";

const KEY = "forkline-comparison";
const ROW = ".row:not(.row-fold, .row-attempt) a[href]:not(.row-toggle)";
const LINK = `${ROW}, a.run-link`;
const MAX_PICKS = 24;
const RUN = /^\/runs\/([0-9a-f-]{36})\//;
const bar = document.getElementById("picks");

function picks() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string").slice(0, MAX_PICKS) : [];
  } catch {
    return [];
  }
}

/** Returns what the address of a comparison calls the link's target, or an empty text. */
function referenceOf(link) {
  const url = new URL(link.href, location.href);
  const run = RUN.exec(url.pathname)?.[1];
  const at = url.searchParams.get("at");
  return run ? (at ? `${run}/${at}` : run) : "";
}

function show() {
  if (!bar) return;
  const picked = picks();
  bar.hidden = picked.length === 0 || location.pathname === bar.dataset.compare;
  const count = counted(bar, picked.length);
  bar.querySelector("[data-picks-count]").textContent = count;
  const query = new URLSearchParams(picked.map((one, index) => [index ? "b" : "a", one]));
  bar.querySelector("a").href = `${bar.dataset.compare}?${query}`;
  for (const link of document.querySelectorAll(LINK)) {
    link.classList.toggle("is-picked", picked.includes(referenceOf(link)));
  }
  return count;
}

function store(picked) {
  sessionStorage.setItem(KEY, JSON.stringify(picked.slice(0, MAX_PICKS)));
  const count = show();
  announce(picked.length ? count : bar.dataset.none);
}

function toggle(link) {
  const reference = referenceOf(link);
  if (!reference || !bar) return false;
  const picked = picks();
  store(picked.includes(reference) ? picked.filter((one) => one !== reference) : [...picked, reference]);
  return true;
}

// Before the list opens the row.
document.addEventListener("click", (event) => {
  const link = (event.ctrlKey || event.metaKey) && event.target.closest?.(ROW);
  if (!link || !toggle(link)) return;
  event.preventDefault();
  event.stopPropagation();
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key !== "c" || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const selected = document.querySelector(".row a[aria-current]");
  const link = document.activeElement?.closest?.(LINK) ?? (event.target.closest(".header") ? null : selected);
  if (link && toggle(link)) event.preventDefault();
});

bar?.querySelector("[data-picks-clear]").addEventListener("click", () => store([]));
// The address of the comparison holds them from now on.
bar?.querySelector("a").addEventListener("click", () => setTimeout(() => sessionStorage.removeItem(KEY)));
document.addEventListener("htmx:afterSwap", show);
window.addEventListener("pageshow", show);
show();
