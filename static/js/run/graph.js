// The lineage of a run: zoom, pan and a small map. Without this script, the whole lineage is shown.

// Below this scale, texts cannot be read; above the other one, they are needlessly large.
const READABLE = 0.55;
const MAX_SCALE = 2;
const STEP = 1.25;
// Pixels that a pointer may move during a click.
const CLICK = 4;
const SVG = "http://www.w3.org/2000/svg";

const root = document.querySelector(".run-graph");
const map = root.querySelector(".graph-map");
const picture = () => document.getElementById("graph-picture");
const nodes = () => [...root.querySelectorAll(".graph-node")];

let whole;
let view;

/** Returns the box of a node in the coordinates of the graph. */
function boxOf(node) {
  const { e, f } = node.transform.baseVal.consolidate().matrix;
  const { width, height } = node.querySelector("rect");
  return { x: e, y: f, width: width.baseVal.value, height: height.baseVal.value };
}

const selected = () => root.querySelector(".graph-node[aria-current]") ?? nodes().at(-1);
const scale = () => picture().clientWidth / view.width;

/** Shows a part of the graph: its middle, and pixels of the page for each of the graph. */
function show(x, y, newScale) {
  const { clientWidth, clientHeight } = picture();
  if (!clientWidth || !clientHeight) return;
  const least = Math.min(clientWidth / whole.width, clientHeight / whole.height, 1);
  const used = Math.min(Math.max(newScale, least), MAX_SCALE);
  const [width, height] = [clientWidth / used, clientHeight / used];
  view = { x: within(x, width, whole.x, whole.width), y: within(y, height, whole.y, whole.height), width, height };
  picture().setAttribute("viewBox", `${view.x} ${view.y} ${width} ${height}`);
  picture().classList.toggle("is-far", used < READABLE);
  drawView();
}

/** Returns where a window begins whose middle is there, so that it shows no more than the graph and half of it. */
function within(middle, length, start, total) {
  if (length >= total) return start - (length - total) / 2;
  return Math.min(Math.max(middle - length / 2, start), start + total - length);
}

// Dividing and multiplying pixels by a scale may lose a fraction of one.
const isWhole = () => view.width > whole.width - 0.5 && view.height > whole.height - 0.5;
const middle = () => [view.x + view.width / 2, view.y + view.height / 2];

function showWhole() {
  show(whole.x + whole.width / 2, whole.y + whole.height / 2, 0);
}

function showNode(node, newScale = scale()) {
  const box = boxOf(node);
  show(box.x + box.width / 2, box.y + box.height / 2, newScale);
}

/** Moves the graph only if the node is not in view. */
function reveal(node) {
  const box = boxOf(node);
  const isInside = box.x >= view.x && box.y >= view.y &&
    box.x + box.width <= view.x + view.width && box.y + box.height <= view.y + view.height;
  if (!isInside || scale() < READABLE) showNode(node, Math.max(scale(), READABLE));
}

function start() {
  const { x, y, width, height } = picture().viewBox.baseVal;
  whole = { x, y, width, height };
}

/** Shows the whole lineage if it can be read, else the selected node. */
function open() {
  view = { ...whole };
  showWhole();
  if (nodes().length && scale() < READABLE) showNode(selected(), 1);
}

// The map, shown unless the whole lineage is.
function drawMap() {
  map.setAttribute("viewBox", `${whole.x} ${whole.y} ${whole.width} ${whole.height}`);
  map.replaceChildren(...nodes().map((node) => rectangle(boxOf(node), `map-${node.getAttribute("class")}`)), rectangle(view, "map-view"));
  drawView();
}

function rectangle({ x, y, width, height }, name) {
  const made = document.createElementNS(SVG, "rect");
  for (const [key, value] of Object.entries({ x, y, width, height, class: name })) made.setAttribute(key, value);
  return made;
}

function drawView() {
  const shown = map.querySelector(".map-view");
  if (!shown) return;
  for (const [key, value] of Object.entries(view)) shown.setAttribute(key, value);
  map.toggleAttribute("hidden", isWhole());
}

function followMap(event) {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  show(at.x, at.y, scale());
}
map.addEventListener("pointerdown", (event) => {
  map.setPointerCapture(event.pointerId);
  followMap(event);
});
map.addEventListener("pointermove", (event) => map.hasPointerCapture(event.pointerId) && followMap(event));

// Zoom and pan
function zoomAt(clientX, clientY, factor) {
  const box = picture().getBoundingClientRect();
  const [before, oldScale] = [view, scale()];
  const [dx, dy] = [clientX - box.x, clientY - box.y];
  const newScale = Math.min(oldScale * factor, MAX_SCALE);
  const [x, y] = [before.x + dx / oldScale - dx / newScale, before.y + dy / oldScale - dy / newScale];
  show(x + box.width / newScale / 2, y + box.height / newScale / 2, newScale);
}

const ZOOMS = {
  in: () => show(...middle(), scale() * STEP),
  out: () => show(...middle(), scale() / STEP),
  whole: showWhole,
  selected: () => showNode(selected(), 1),
};
root.querySelector(".graph-tools").addEventListener("click", ({ target }) => ZOOMS[target.closest("[data-zoom]")?.dataset.zoom]?.());

const KEYS = { "+": "in", "=": "in", "-": "out", 0: "whole" };
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, [contenteditable], .detail") || event.ctrlKey || event.metaKey || event.altKey) return;
  const zoom = KEYS[event.key];
  if (!zoom) return;
  event.preventDefault();
  ZOOMS[zoom]();
});

root.addEventListener("wheel", (event) => {
  if (!event.target.closest(".graph-picture")) return;
  event.preventDefault();
  zoomAt(event.clientX, event.clientY, Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)));
}, { passive: false });

// Pointers that are down: one pans, two zoom.
const pointers = new Map();
let moved = 0;
root.addEventListener("pointerdown", (event) => {
  if (!event.target.closest(".graph-picture") || event.button !== 0) return;
  pointers.set(event.pointerId, event);
  if (pointers.size === 1) moved = 0;
});
addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
  if (pointers.size === 2) pinch(before, event);
  else if (moved + Math.abs(dx) + Math.abs(dy) > CLICK) show(middle()[0] - dx / scale(), middle()[1] - dy / scale(), scale());
  moved += Math.abs(dx) + Math.abs(dy);
  pointers.set(event.pointerId, event);
});
function pinch(before, event) {
  const other = [...pointers.values()].find(({ pointerId }) => pointerId !== event.pointerId);
  const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
  zoomAt((event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2, apart(event) / apart(before));
}
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, ({ pointerId }) => pointers.delete(pointerId));
// A drag that ends on a node does not open it. Links are not dragged as such.
root.addEventListener("click", (event) => {
  if (moved <= CLICK || !event.target.closest(".graph-picture")) return;
  event.preventDefault();
  event.stopPropagation();
}, true);
root.addEventListener("dragstart", (event) => event.preventDefault());
root.addEventListener("focusin", ({ target }) => target.matches(".graph-node:focus-visible") && reveal(target));

// A refresh brings another drawing; what is shown of it stays.
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.target.id !== "graph-picture") return;
  const [at, used] = [middle(), scale()];
  start();
  show(...at, used);
  drawMap();
});
new ResizeObserver(() => isWhole() ? showWhole() : show(...middle(), scale())).observe(root);

root.querySelector(".graph-tools").hidden = false;
start();
open();
drawMap();
