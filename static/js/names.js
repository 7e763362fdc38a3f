// Long names in headings and breadcrumbs are cut to two lines. A button shows the whole of a heading.

const HEADINGS = ":is(main, aside) :is(h1, h2):not(.visually-hidden)";
const CRUMBS = ".breadcrumb :is(a, [aria-current])";
const LINES = 2;
const { nameMore, nameLess } = document.documentElement.dataset;
const opened = new Set();

/** Returns whether the text takes more than two lines if nothing cuts it. */
function isLong(heading) {
  heading.classList.remove("is-cut");
  const { lineHeight } = getComputedStyle(heading);
  return heading.clientHeight > parseFloat(lineHeight) * (LINES + 0.5);
}

function buttonOf(heading) {
  const known = heading.nextElementSibling;
  if (known?.matches(".name-toggle")) return known;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link-button small name-toggle";
  heading.after(button);
  return button;
}

function cut(heading) {
  const text = heading.textContent.trim();
  const known = heading.nextElementSibling?.matches(".name-toggle") ? heading.nextElementSibling : null;
  if (!isLong(heading)) {
    known?.remove();
    return;
  }
  const isOpen = opened.has(text);
  heading.classList.toggle("is-cut", !isOpen);
  const button = buttonOf(heading);
  button.textContent = isOpen ? nameLess : nameMore;
  button.setAttribute("aria-expanded", isOpen);
}

function cutAll() {
  for (const heading of document.querySelectorAll(HEADINGS)) if (heading.checkVisibility()) cut(heading);
  for (const crumb of document.querySelectorAll(CRUMBS)) {
    const text = crumb.textContent.trim().replace(/\s+/g, " ");
    if (crumb.scrollHeight > crumb.clientHeight + 1) crumb.title = text;
    else crumb.removeAttribute("title");
  }
}

document.addEventListener("click", ({ target }) => {
  if (!target.matches?.(".name-toggle")) return;
  const heading = target.previousElementSibling;
  const text = heading.textContent.trim();
  if (!opened.delete(text)) opened.add(text);
  cut(heading);
});
document.addEventListener("htmx:afterSettle", cutAll);
new ResizeObserver(cutAll).observe(document.documentElement);
