// The search in the branch picker. The server finds the branches that the list leaves out.

const picker = () => document.getElementById("branches");

// The list and its head are replaced when a stretch is collapsed.
document.addEventListener("toggle", ({ target, newState }) => {
  if (target.id !== "branches" || newState !== "open") return;
  // A few branches need no search.
  const search = document.getElementById("branch-search");
  (search.checkVisibility() ? search : target.querySelector("a"))?.focus();
}, true);
/** Hides the branches that do not match. The server finds those that the list leaves out. */
function filterBranches() {
  const wanted = document.getElementById("branch-search").value.trim().toLowerCase();
  let count = 0;
  for (const item of picker().querySelectorAll("[data-name]")) {
    item.hidden = !item.dataset.name.toLowerCase().includes(wanted);
    count += item.hidden ? 0 : 1;
  }
  picker().querySelector(".branch-none").hidden = count > 0;
}
document.addEventListener("input", ({ target }) => target.id === "branch-search" && filterBranches());
document.addEventListener("htmx:afterSwap", ({ detail }) => detail.target.id === "run-branches" && filterBranches());
// New checkpoints replace the list with that of the newest branches.
document.addEventListener("htmx:oobAfterSwap", ({ detail }) => {
  const search = document.getElementById("branch-search");
  if (detail.target.id !== "run-branches" || !search?.value) return;
  filterBranches();
  window.htmx.trigger(search, "find-again");
});
document.addEventListener("keydown", (event) => {
  if (event.target.id !== "branch-search" || event.key !== "Enter") return;
  event.preventDefault();
  picker().querySelector("[data-name]:not([hidden]) a")?.click();
});
