// Keeps the focus when a part of the page is replaced: on the same element, else in the new part.

const FOCUSABLE = "a[href], button:not(:disabled), input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
// The id of the focused element, and those of the part that is being replaced and of its ancestors.
let lost = null;

const isNowhere = () => {
  const active = document.activeElement;
  return !active || active === document.body || !active.checkVisibility() || active.disabled;
};

function remember(part) {
  const active = document.activeElement;
  if (!part?.contains?.(active) || active === part) return;
  const around = [];
  for (let element = part; element; element = element.parentElement) if (element.id) around.push(element.id);
  lost = { id: active.id, around };
}

/** Returns the same element if it still exists; else the nearest part around it, or the first focusable element in it. */
function next({ id, around }) {
  const same = id ? document.getElementById(id) : null;
  if (same?.checkVisibility() && !same.disabled) return same;
  for (const part of around) {
    const found = document.getElementById(part);
    if (!found?.checkVisibility()) continue;
    if (found.hasAttribute("tabindex")) return found;
    const inside = [...found.querySelectorAll(FOCUSABLE)].find((element) => element.checkVisibility());
    if (inside) return inside;
  }
  return null;
}

function restore() {
  if (lost && isNowhere()) next(lost)?.focus({ preventScroll: true });
  if (!isNowhere()) lost = null;
}

// A button that is disabled during its request loses the focus before its part is replaced.
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  if (detail.elt.contains(document.activeElement)) remember(detail.target === document.body ? detail.elt : detail.target);
});
document.addEventListener("htmx:beforeSwap", ({ detail }) => remember(detail.target));
document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => remember(detail.target));
// At once, so that no key comes between.
document.addEventListener("htmx:afterSwap", restore);
for (const done of ["htmx:afterSettle", "htmx:oobAfterSwap", "htmx:afterRequest", "htmx:wsAfterMessage"]) {
  document.addEventListener(done, () => requestAnimationFrame(restore));
}
