// Buttons that copy a link, a text, or the text of an element.

const BUTTONS = "[data-copy], [data-copy-text], [data-copy-value]";

function showCopyButtons() {
  // The clipboard requires a secure context: HTTPS or localhost.
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll(BUTTONS)) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest(BUTTONS);
  if (!button) return;
  // In the summary of a fold, it must not open it.
  if (button.closest("summary")) event.preventDefault();
  const { copy, copyText, copyValue } = button.dataset;
  const text = copyValue ?? (copyText ? document.getElementById(copyText).textContent : new URL(copy, location.href).href);
  await navigator.clipboard.writeText(text);
  const label = button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => (button.textContent = label), 1500);
});

document.addEventListener("htmx:afterSwap", showCopyButtons);
showCopyButtons();
