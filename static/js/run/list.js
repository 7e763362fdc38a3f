// What the scripts of the list of a run share.

/** Returns whether a key press belongs to a field or a dialog. */
export function isTyping({ target }) {
  return target.closest("input, textarea, select, [contenteditable], dialog[open]") !== null;
}

/** Returns the box that scrolls the list; null if the page does, as on a phone. */
export function scrollingBox() {
  const list = document.getElementById("lineage");
  return list && getComputedStyle(list).overflowY === "auto" ? list : null;
}

/** Returns whether a row's branch is this branch, or its next attempt. */
export function isOfBranch(shown, branch) {
  return shown === branch || shown.startsWith(`${branch}, `);
}
