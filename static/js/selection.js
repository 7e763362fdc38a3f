// The runs and search results that are selected to be resumed or forked together. A refresh of the list keeps them.

const BOX = 'input[form="selected"][type="checkbox"]';
const selected = new Set();
const nameOf = (box) => `${box.name} ${box.value}`;

function show() {
  const boxes = [...document.querySelectorAll(BOX)];
  for (const box of boxes) box.checked = selected.has(nameOf(box));
  const count = boxes.filter((box) => box.checked).length;
  const all = document.getElementById("select-all");
  const status = document.getElementById("selected-count");
  if (!all || !status) return;
  all.closest("label").hidden = false;
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  status.textContent = count ? status.dataset.text.replace("{count}", count) : "";
  for (const button of document.querySelectorAll("#selected button")) button.disabled = count === 0;
}

document.addEventListener("change", ({ target }) => {
  if (target.id !== "select-all" && !target.matches(BOX)) return;
  const boxes = target.id === "select-all" ? document.querySelectorAll(BOX) : [target];
  for (const box of boxes) {
    if (target.checked) selected.add(nameOf(box));
    else selected.delete(nameOf(box));
  }
  show();
});
document.addEventListener("htmx:afterSettle", show);
show();
