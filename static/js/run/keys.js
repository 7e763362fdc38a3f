// The page of a run: the list of keys, and keys that open something.

import { isTyping } from "./list.js";

const keys = () => document.getElementById("keys");

const OPENED = {
  "?": () => keys()?.showModal(),
  b: () => document.querySelector("[popovertarget=branches]")?.checkVisibility() && document.getElementById("branches")?.showPopover(),
};

document.addEventListener("keydown", (event) => {
  if (isTyping(event) || event.ctrlKey || event.altKey || event.metaKey || !(event.key in OPENED)) return;
  event.preventDefault();
  OPENED[event.key]();
});
document.addEventListener("click", ({ target }) => target.closest?.("[data-shows-keys]") && keys().showModal());
