// Names the branches whose lanes cross the top of the list, since their heads are further up.

const ROWS = ".row > a[data-branch], .row-passing";
let lines = [];
let shown = "";

const list = () => document.getElementById("lineage");
const heading = () => document.querySelector("[data-branches]");

/** Reads the rows and where the parent of each is: below the loaded rows if it is not among them. */
function read() {
  const elements = [...(list()?.querySelectorAll(ROWS) ?? [])];
  const positions = new Map(elements.map((element, index) => [element.id, index]));
  lines = elements.map((element) => {
    const { branch, colour, lane, parent } = element.dataset;
    const end = parent ? positions.get(`c${parent}`) ?? Infinity : -1;
    return { element, branch, colour, lane: Number(lane), end };
  });
  shown = null;
  show();
}

/** Returns the index of the first row that is not above the list's visible part. */
function firstVisible(top) {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const { element } = lines[middle];
    const isAbove = element.matches(".row-passing") || element.getBoundingClientRect().bottom <= top + 1;
    if (isAbove) low = middle + 1;
    else high = middle;
  }
  return low;
}

function show() {
  const title = heading();
  if (!title?.checkVisibility()) return;
  const first = firstVisible(title.parentElement.getBoundingClientRect().bottom);
  const crossing = new Map();
  for (const { branch, colour, lane, end } of lines.slice(0, first)) {
    if (end >= first) crossing.set(branch, { branch, colour, lane });
  }
  const names = [...crossing.values()].sort((one, other) => one.lane - other.lane);
  const now = names.map(({ branch }) => branch).join("\n");
  if (now === shown) return;
  shown = now;
  const chips = names.map(({ branch, colour }) => {
    const chip = document.createElement("span");
    chip.className = `branch lane-${colour}`;
    chip.textContent = branch;
    return chip;
  });
  title.replaceChildren(...(chips.length ? chips : [title.dataset.branches]));
}

let isWaiting = false;
function later() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    show();
  });
}

document.addEventListener("scroll", later, { capture: true, passive: true });
// In the next frame, which computes the layout of new rows anyway.
document.addEventListener("htmx:afterSwap", ({ detail }) => detail.target.id !== "detail" && requestAnimationFrame(read));
read();
