// The fork's form: marks what changed, holds a start back until its plan is shown, Ctrl+Enter.
const form = document.getElementById("fork");
const growsByItself = CSS.supports("field-sizing", "content");
// Edits since the plan that is shown was asked for.
let edits = 0;
let asked = 0;
let planned = 0;

function grow(area) {
  if (growsByItself) return;
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

// Marks are of the text as it was when they were made: typing makes them wrong.
function clearMarks(id) {
  document.getElementById(`${id}-after`)?.replaceChildren();
  const before = document.getElementById(`${id}-before`);
  if (before?.firstElementChild) before.textContent = before.textContent;
}

function show() {
  const plan = document.getElementById("plan");
  const changed = new Set(plan.dataset.changed.split(" "));
  for (const row of form.querySelectorAll("[data-marks]")) {
    row.classList.toggle("is-changed", changed.has(row.dataset.marks));
  }
  for (const field of form.querySelectorAll("[aria-describedby]")) {
    const error = document.getElementById(field.getAttribute("aria-describedby").split(" ")[0]);
    if (!error?.classList.contains("error")) continue;
    if (error.textContent.trim()) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
  const key = form.querySelector("#start-button kbd");
  if (key && /Mac|iP/.test(navigator.platform)) key.textContent = "⌘↵";
}

function say(words) {
  const state = document.getElementById("start-state");
  if (state) state.textContent = words;
}

// A running preflight check polls for its result; that does not update the plan.
const isOfTheForm = (event) => event.target.id !== "preflight-wait";

if (form.hasAttribute("hx-post")) {
  form.classList.add("is-live");
  form.addEventListener("input", (event) => {
    edits += 1;
    if (event.target.matches("textarea")) {
      grow(event.target);
      clearMarks(event.target.id);
    }
  });
  form.addEventListener("htmx:beforeRequest", (event) => { if (isOfTheForm(event)) asked = edits; });
  form.addEventListener("htmx:oobBeforeSwap", (event) => {
    // An answer to an earlier text than the one that stands there now has nothing to mark.
    if (asked !== edits && /-(before|after)$/.test(event.target.id)) event.detail.shouldSwap = false;
  });
  form.addEventListener("htmx:beforeSwap", (event) => { if (isOfTheForm(event)) planned = asked; });
  form.addEventListener("htmx:afterSettle", show);
  for (const failure of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    // Without an answer, the server says what it makes of the form when it is sent.
    form.addEventListener(failure, (event) => { if (isOfTheForm(event)) planned = edits; });
  }
}

// A time that is typed is meant, and "Now" clears it.
form.addEventListener("input", ({ target }) => {
  const time = form.elements.start_at;
  if (target === time) form.elements.start.value = "later";
  else if (target.name === "start" && target.value === "now") time.value = "";
});

form.addEventListener("submit", (event) => {
  if (planned !== edits && !event.submitter?.hasAttribute("formaction")) {
    event.preventDefault();
    say(form.dataset.wait);
    return;
  }
  document.getElementById("start-button").setAttribute("aria-busy", "true");
});

document.addEventListener("keydown", (event) => {
  const button = document.getElementById("start-button");
  if (event.key !== "Enter") return;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    if (!button.disabled) form.requestSubmit(button);
  } else if (event.target.matches("#fork input")) {
    // The plan is shown already; a start is asked for on purpose.
    event.preventDefault();
  }
});

form.querySelectorAll("textarea").forEach(grow);
show();
document.getElementById("errors")?.focus();
