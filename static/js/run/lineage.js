// The list of a run: keys, the selection, and new rows on top without a jump of the scroll position.

import { counted } from "../counts.js";
import { isOfBranch, isTyping, scrollingBox } from "./list.js";

const ITEM = ".row a:not(.row-toggle), .graph-node";
const current = () => document.querySelector('.row a[aria-current], .graph-node[aria-current]');
const selection = () => document.getElementById("selection")?.value ?? "";
const items = () => [...document.querySelectorAll(ITEM)];
const rowOf = (element) => element?.closest(".row");
const focusedItem = () => document.activeElement?.closest?.(ITEM);

/** Makes one row reachable by Tab: the focused one, else the selected one. */
function rove(stop = focusedItem() ?? current() ?? document.querySelector(ITEM)) {
  for (const item of items()) item.tabIndex = item === stop ? 0 : -1;
  // The keys of their rows do what they do.
  for (const toggle of document.querySelectorAll(".row-toggle")) toggle.tabIndex = -1;
}

function relative(link, upwards) {
  if (upwards) return [...document.querySelectorAll(`.row a[data-parent="${link.id.slice(1)}"]`)].at(-1);
  return link.dataset.parent ? document.getElementById(`c${link.dataset.parent}`) : null;
}

function select(link) {
  if (!link) return;
  rove(link);
  link.focus({ preventScroll: true });
  link.scrollIntoView({ block: "nearest" });
}

const STEPS = { ArrowUp: -1, ArrowDown: 1, k: -1, j: 1 };

document.addEventListener("keydown", (event) => {
  if (isTyping(event) || event.altKey || event.metaKey) return;
  const inGraph = document.activeElement?.matches(".graph-node");
  const step = STEPS[event.key] ?? (inGraph ? { ArrowLeft: -1, ArrowRight: 1 }[event.key] : undefined);
  // Ctrl+J and Ctrl+K are the browser's and the palette's.
  if (step && !(event.ctrlKey && event.key.length === 1)) moveBy(event, step);
  else if (["Home", "End"].includes(event.key) && focusedItem()) moveTo(event, items().at(event.key === "Home" ? 0 : -1));
  else if (["ArrowLeft", "ArrowRight"].includes(event.key) && !event.ctrlKey && !event.shiftKey) toggleStretch(event);
  else if (!event.ctrlKey && !event.shiftKey) followKey(event);
});

/** Collapses the focused row's stretch with the arrow that points to its start, and expands it with the other. */
function toggleStretch(event) {
  const toggle = rowOf(focusedItem())?.querySelector(".row-toggle");
  const isCollapsed = toggle?.classList.contains("is-collapsed");
  const isForward = (event.key === "ArrowRight") === (getComputedStyle(document.body).direction === "ltr");
  if (!toggle || isCollapsed !== isForward) return;
  event.preventDefault();
  toggle.click();
}

/** Returns the next row of another lane, which is another branch. */
function acrossLanes(link, step) {
  const rows = items();
  let at = rows.indexOf(link) + step;
  while (rows[at] && (!rows[at].dataset.lane || rows[at].dataset.lane === link.dataset.lane)) at += step;
  return rows[at];
}

/**
 * Arrows move by row, with Ctrl to the parent or child, with Shift to another branch. Enter opens: the focused
 * row is a link.
 */
function moveBy(event, step) {
  if (event.target.closest(".detail, .header, .live")) return;
  const from = focusedItem() ?? current();
  if (!from) return moveTo(event, items()[0]);
  const isRow = from.closest(".row") !== null;
  if (event.ctrlKey && isRow) moveTo(event, relative(from, step < 0));
  else if (event.shiftKey && isRow) moveTo(event, acrossLanes(from, step));
  else moveTo(event, items()[items().indexOf(from) + step]);
}

function moveTo(event, item) {
  event.preventDefault();
  select(item);
}

/** Clicks the visible button that names this key. */
function followKey(event) {
  const button = document.querySelector(`#detail [data-key="${CSS.escape(event.key)}"]`);
  if (!button) return;
  event.preventDefault();
  button.click();
}

// Open another checkpoint on the present tab, not the one at the time when the list was rendered.
// Only views of this run belong in the panel: a link in it to another page, such as a form, opens that page.
document.addEventListener("htmx:configRequest", (event) => {
  const { boosted, path, target } = event.detail;
  if (!boosted || target.id !== "detail" || new URL(path, location.href).pathname === location.pathname) return;
  event.preventDefault();
  location.assign(path);
});
document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (!detail.elt.matches(".row a, .graph-node")) return;
  const url = new URL(detail.path, location.href);
  // Collapsing does not change the selection.
  if (detail.elt.matches(".row-toggle, .graph-fold")) url.searchParams.set("at", selection());
  for (const name of ["tab", "as"]) url.searchParams.delete(name);
  const kept = new URLSearchParams(document.getElementById("selection")?.dataset.kept);
  for (const [name, value] of kept) url.searchParams.set(name, value);
  detail.path = url.pathname + url.search;
});

// Links of the head were rendered with the checkpoint that was selected then.
document.addEventListener("click", ({ target }) => {
  const link = target.closest?.('.run-tools a[href*="at="]');
  if (!link || !selection()) return;
  const url = new URL(link.href);
  if (!url.searchParams.has("at")) return;
  url.searchParams.set("at", selection());
  link.href = url;
}, true);

/** Marks the row whose checkpoint the detail shows. */
function markSelection() {
  const at = selection();
  // Folded lines and failed attempts are not selected.
  for (const link of document.querySelectorAll(".row:not(.row-fold, .row-attempt) a:not(.row-toggle), .graph-node:not(.graph-fold)")) {
    const selected = new URL(link.href.baseVal ?? link.href, location.href).searchParams.get("at") === at;
    if (selected) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

// New rows on top must not move what is being read further down.
let before = null;
let focused = null;
let newest = null;
let unseen = 0;
let toggled = null;
const newRows = () => document.getElementById("rows-new");
const rowsShown = () => document.querySelector(".rows[data-newest]");
/** Returns what scrolls the list now; the page if all rows fit into its box. */
function scroller() {
  const list = scrollingBox();
  return list && list.scrollHeight > list.clientHeight ? list : document.scrollingElement;
}
/** Returns whether the list is scrolled or a row below the first is selected. */
function isReadingBelow() {
  const chosen = rowOf(current());
  return scroller().scrollTop > 0 || (chosen !== null && chosen !== undefined && chosen !== document.querySelector(".row"));
}
/** Returns how many of the newest rows are not of the branch that the page goes with. */
function countOthers(count) {
  const followed = document.querySelector("[data-followed]")?.dataset.branch;
  if (!followed) return count;
  const rows = [...document.querySelectorAll(".row > a[data-branch]")].slice(0, count);
  return count - rows.filter(({ dataset }) => isOfBranch(dataset.branch, followed)).length;
}
function announce(count) {
  unseen += count;
  const button = newRows();
  button.hidden = unseen === 0;
  if (unseen) button.textContent = counted(button, unseen);
}
document.addEventListener("click", ({ target }) => {
  if (!target.closest?.("#rows-new")) return;
  announce(-unseen);
  const url = new URL(location.href);
  // If the list does not begin with the newest rows, load the page that does.
  if (new URL(rowsShown().getAttribute("hx-get"), url).searchParams.has("from")) {
    for (const name of ["at", "from"]) url.searchParams.delete(name);
    location.assign(url);
    return;
  }
  scroller().scrollTo({ top: 0 });
  select(document.querySelector(".row a"));
});
// Reads the layout only if there is something to hide: it is called for each frame.
document.addEventListener("scroll", () => unseen && scroller().scrollTop === 0 && !rowsShown()?.getAttribute("hx-get").includes("from=") && announce(-unseen), { capture: true, passive: true });
/** Returns the row of a button that collapses, and where it is in the window. */
function placeOf(button) {
  const link = rowOf(button).querySelector(ITEM);
  return { id: link.id, top: link.getBoundingClientRect().top };
}
/** Scrolls the replaced list so that the row is where it was, and focuses the row. */
function restorePlace({ id, top }) {
  toggled = null;
  unseen = 0;
  const link = document.getElementById(id);
  if (!link) return;
  scroller().scrollTop += link.getBoundingClientRect().top - top;
  focused = id;
}
/** Returns the pixels between the top of the visible part and the end of the list. */
function untilEnd() {
  const { scrollHeight, scrollTop } = scroller();
  return scrollHeight - scrollTop;
}
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const isList = detail.target.matches?.(".rows");
  toggled = detail.requestConfig?.elt.matches(".row-toggle") ? placeOf(detail.requestConfig.elt) : null;
  before = isList && isReadingBelow() ? untilEnd() : null;
  newest = isList ? Number(detail.target.dataset.newest) : null;
  focused = detail.target.contains?.(document.activeElement) ? document.activeElement.id : null;
});
document.addEventListener("htmx:afterSwap", () => {
  // Reads the layout only if it has to: the browser computes that of older rows together with the next frame.
  if (before !== null) scroller().scrollTop += untilEnd() - before;
  if (toggled) restorePlace(toggled);
  const more = newest === null ? 0 : Number(rowsShown()?.dataset.newest) - newest;
  if (more > 0 && before !== null) announce(countOthers(more));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  before = focused = newest = null;
  markSelection();
  rove();
});

// The focused element was replaced, or is in the list that a phone hides: focus the new checkpoint.
const isNowhere = (element) => !element || element === document.body || !element.checkVisibility();
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  // Rows that mute what is no ancestor depend on the selection.
  if (detail.target.id === "detail") document.body.dispatchEvent(new CustomEvent("selection-changed"));
  if (detail.target.id !== "detail" || !isNowhere(document.activeElement)) return;
  document.getElementById("detail").focus({ preventScroll: true });
});

document.addEventListener("focusin", ({ target }) => target.matches(ITEM) && rove(target));

rove();
current()?.scrollIntoView({ block: "nearest" });
