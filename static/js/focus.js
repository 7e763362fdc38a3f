// Keeps the keyboard where it was when a part of the page is replaced, else in the part that took its place.

const FOCUSABLE = "a[href], button:not(:disabled), input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
// Where the keyboard was: the element's id, and the part that is being replaced.
let left = null;

const isNowhere = () => {
  const active = document.activeElement;
  return !active || active === document.body || !active.checkVisibility() || active.disabled;
};

function remember(part) {
  const active = document.activeElement;
  if (part?.contains?.(active) && active !== part) {
    left = { id: active.id, part: part.id, around: part.parentElement?.closest("[id]")?.id };
  }
}

/** The same element, where it is there still; else its part, or the first in it. */
function next({ id, part, around }) {
  const same = id ? document.getElementById(id) : null;
  if (same?.checkVisibility() && !same.disabled) return same;
  for (const place of [part, around]) {
    const found = place ? document.getElementById(place) : null;
    if (!found?.checkVisibility()) continue;
    if (found.hasAttribute("tabindex")) return found;
    const inside = [...found.querySelectorAll(FOCUSABLE)].find((element) => element.checkVisibility());
    if (inside) return inside;
  }
  return null;
}

function restore() {
  if (left && isNowhere()) next(left)?.focus({ preventScroll: true });
  if (!isNowhere()) left = null;
}

// A button that is disabled while it is sent has lost the keyboard before its part is replaced.
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  if (detail.elt.contains(document.activeElement)) remember(detail.target === document.body ? detail.elt : detail.target);
});
document.addEventListener("htmx:beforeSwap", ({ detail }) => remember(detail.target));
document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => remember(detail.target));
for (const done of ["htmx:afterSettle", "htmx:oobAfterSwap", "htmx:afterRequest", "htmx:wsAfterMessage"]) {
  document.addEventListener(done, () => requestAnimationFrame(restore));
}
