// Buttons that copy a link.

function showCopyButtons() {
  // The clipboard requires a secure context: HTTPS or localhost.
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(new URL(button.dataset.copy, location.href).href);
  const label = button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => (button.textContent = label), 1500);
});

document.addEventListener("htmx:afterSwap", showCopyButtons);
showCopyButtons();
