// Goes with the branch that a person has started, until the person scrolls, moves or opens something else.

import { isOfBranch, scrollingBox } from "./list.js";

const MOVES = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", "j", "k"]);

const bars = () => [...document.querySelectorAll("[data-job-bar]")];
const barOf = (job) => bars().find((bar) => bar.dataset.jobBar === job);
// Nobody is followed at first, except the job that this page was opened for.
let followed = new URLSearchParams(location.search).get("job");
let isOpening = false;

/** Returns the newest row of a branch, or of its next attempt; undefined while there is none. */
function newestOf(branch) {
  const rows = [...document.querySelectorAll(".row > a[data-branch]")];
  return rows.find(({ dataset }) => isOfBranch(dataset.branch, branch));
}

function showButtons() {
  for (const bar of bars()) {
    bar.toggleAttribute("data-followed", bar.dataset.jobBar === followed);
    const button = bar.querySelector("[data-follow]");
    if (button) button.hidden = bar.dataset.jobBar === followed || bar.querySelector(".has-ended") !== null;
  }
}

/** Scrolls the list to a row. The heading of the list covers what is at its very top. */
function show(row) {
  const box = scrollingBox();
  if (box && row === document.querySelector(".row > a")) box.scrollTop = 0;
  else row?.scrollIntoView({ block: "center" });
}

/** Opens the newest checkpoint of the followed branch, in place of the one that is open. */
async function go() {
  showButtons();
  const bar = followed && barOf(followed);
  const row = bar && newestOf(bar.dataset.branch);
  if (!row || isOpening || row.hasAttribute("aria-current")) return;
  const url = new URL(row.href);
  url.searchParams.set("job", followed);
  isOpening = true;
  try {
    await window.htmx.ajax("GET", row.getAttribute("href"), { source: row, target: "#detail", swap: "outerHTML show:none" });
    history.replaceState(history.state, "", url);
    show(document.getElementById(row.id));
  } finally {
    isOpening = false;
  }
}

function stop() {
  if (!followed) return;
  followed = null;
  showButtons();
}

for (const name of ["wheel", "touchmove"]) document.addEventListener(name, stop, { passive: true });
document.addEventListener("keydown", ({ key, target }) => MOVES.has(key) && !target.closest("input, textarea, select") && stop());
document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-follow]");
  if (button) {
    followed = button.closest("[data-job-bar]").dataset.jobBar;
    go();
  } else if (target.closest?.(".row a, .graph-node, .tabs a, .run-tools a")) stop();
});

document.addEventListener("htmx:afterSettle", ({ detail }) => detail.target.matches?.(".rows") && go());
document.addEventListener("htmx:wsAfterMessage", showButtons);
showButtons();
