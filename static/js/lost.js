// Says in plain sight that the server does not answer, and opens what was pressed meanwhile once it does.

const RETRY_MILLISECONDS = 1500;
const banner = document.getElementById("lost");
let pressed = null;
let timer = 0;

/** Returns whether the server answers at all: any status is an answer. */
async function answers() {
  try {
    await fetch(document.querySelector("link[rel=icon]").href, { cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

async function check() {
  timer = 0;
  if (!(await answers())) return watch();
  banner.hidden = true;
  // A link is opened. A form is not sent again: that is for the person to decide.
  if (pressed?.isConnected) pressed.click();
  pressed = null;
}

function watch() {
  timer ||= setTimeout(check, RETRY_MILLISECONDS);
}

document.addEventListener("htmx:sendError", ({ detail }) => {
  const { elt, requestConfig } = detail;
  // Parts that fetch themselves try again on their own.
  if (elt.matches('[hx-trigger*="every"], [hx-trigger*="load"], [hx-trigger*="location-changed"]')) return;
  banner.hidden = false;
  pressed = requestConfig.verb === "get" && elt.matches("a") ? elt : null;
  watch();
});
