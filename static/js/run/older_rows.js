// Loads older rows before the end of the list is reached, so that scrolling does not stop there.

import { scrollingBox } from "./list.js";

// In heights of the visible part of the list. The first rows of a page are three times that on most screens.
const AHEAD = "100%";
const LINK = ".rows-beyond[hx-get]";
let observer = null;
let root = null;

function load(entries) {
  for (const { isIntersecting, target } of entries) if (isIntersecting) window.htmx.trigger(target, "near");
}

/** Watches the link to older rows, which each part of the list replaces. */
function watch() {
  const link = document.querySelector(LINK);
  observer?.disconnect();
  if (!link) return;
  root = scrollingBox();
  observer = new IntersectionObserver(load, { root, rootMargin: `${AHEAD} 0px` });
  observer.observe(link);
}

// After htmx has added its listener to the new link.
document.addEventListener("htmx:afterSettle", ({ detail }) => detail.target.id !== "detail" && watch());
window.addEventListener("resize", () => scrollingBox() !== root && watch());
window.addEventListener("load", watch);
