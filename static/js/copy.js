// Buttons that copy a link, or the text of an element.

function showCopyButtons() {
  // The clipboard requires a secure context: HTTPS or localhost.
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy], [data-copy-text]")) button.hidden = false;
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy], [data-copy-text]");
  if (!button) return;
  const { copy, copyText } = button.dataset;
  const text = copyText ? document.getElementById(copyText).textContent : new URL(copy, location.href).href;
  await navigator.clipboard.writeText(text);
  const label = button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => (button.textContent = label), 1500);
});

document.addEventListener("htmx:afterSwap", showCopyButtons);
showCopyButtons();
