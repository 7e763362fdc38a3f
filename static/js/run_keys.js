// The page of a run: the list of keys, the search in the branch picker, and keys that open something.

const keys = document.getElementById("keys");
const picker = document.getElementById("branches");
const search = document.getElementById("branch-search");

function isTyping({ target }) {
  return target.closest("input, textarea, select, [contenteditable], dialog[open]") !== null;
}

const OPENED = {
  "?": () => keys?.showModal(),
  "/": () => document.querySelector("[data-palette]")?.click(),
  b: () => document.querySelector("[popovertarget=branches]")?.checkVisibility() && picker?.showPopover(),
};

document.addEventListener("keydown", (event) => {
  if (isTyping(event) || event.ctrlKey || event.altKey || event.metaKey || !(event.key in OPENED)) return;
  event.preventDefault();
  OPENED[event.key]();
});
document.addEventListener("click", ({ target }) => target.closest?.("[data-shows-keys]") && keys.showModal());

picker?.addEventListener("toggle", ({ newState }) => newState === "open" && search?.focus());
search?.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  let count = 0;
  for (const item of picker.querySelectorAll("[data-name]")) {
    item.hidden = !item.dataset.name.toLowerCase().includes(wanted);
    count += item.hidden ? 0 : 1;
  }
  picker.querySelector(".branch-none").hidden = count > 0;
});
search?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  picker.querySelector("[data-name]:not([hidden]) a")?.click();
});
