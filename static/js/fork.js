// The forms of launches: mark changes, wait for the plan before a start, and start with Ctrl+Enter.
const form = document.getElementById("fork");
const hasFieldSizing = CSS.supports("field-sizing", "content");
// The number of edits: in all, at the last request of a plan, and at the plan that is shown.
let edits = 0;
let requested = 0;
let planned = 0;
// Whether the person has asked to start as soon as the running preflight check has passed.
let startsWhenChecked = false;

function grow(area) {
  if (hasFieldSizing) return;
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

// Marks belong to an earlier text: remove them when it is edited.
function clearMarks(id) {
  document.getElementById(`${id}-after`)?.replaceChildren();
  const before = document.getElementById(`${id}-before`);
  if (before?.firstElementChild) before.textContent = before.textContent;
}

function show() {
  const plan = document.getElementById("plan");
  // A fork without a name of the person's is named for its edits.
  const branch = form.elements.branch;
  if (branch && plan.dataset.branch) branch.placeholder = plan.dataset.branch;
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

function showState(text) {
  const state = document.getElementById("start-state");
  if (state) state.textContent = text;
}

// A running preflight check polls for its result; that does not update the plan.
const isFormRequest = (event) => event.target.id !== "preflight-wait";

if (form.hasAttribute("hx-post")) {
  form.classList.add("is-live");
  form.addEventListener("input", (event) => {
    edits += 1;
    if (event.target.matches("textarea")) {
      grow(event.target);
      clearMarks(event.target.id);
    }
  });
  form.addEventListener("htmx:beforeRequest", (event) => { if (isFormRequest(event)) requested = edits; });
  form.addEventListener("htmx:oobBeforeSwap", (event) => {
    // The response is to an earlier text, so its marks do not fit.
    if (requested !== edits && /-(before|after)$/.test(event.target.id)) event.detail.shouldSwap = false;
  });
  form.addEventListener("htmx:beforeSwap", (event) => { if (isFormRequest(event)) planned = requested; });
  form.addEventListener("htmx:afterSettle", show);
  for (const failure of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    // Without a plan, the server checks the form when it is sent.
    form.addEventListener(failure, (event) => { if (isFormRequest(event)) planned = edits; });
  }
}

// Typing a time selects "later", and "Now" clears the time.
form.addEventListener("input", ({ target }) => {
  const time = form.elements.start_at;
  if (target === time) form.elements.start.value = "later";
  else if (target.name === "start" && target.value === "now") time.value = "";
});

form.addEventListener("submit", (event) => {
  if (planned !== edits && !event.submitter?.hasAttribute("formaction")) {
    event.preventDefault();
    showState(form.dataset.wait);
    return;
  }
  document.getElementById("start-button").setAttribute("aria-busy", "true");
});

document.addEventListener("keydown", (event) => {
  const button = document.getElementById("start-button");
  // In the command palette, the key is for what it offers.
  if (event.key !== "Enter" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    if (!button.disabled) form.requestSubmit(button);
    else if (document.getElementById("preflight-wait")) {
      startsWhenChecked = true;
      showState(form.dataset.starts);
    }
  } else if (event.target.matches("#fork input")) {
    // The plan is shown already: a start must be deliberate.
    event.preventDefault();
  }
});

/** Starts once the check has passed. Any edit, or anything else that is in the way, ends the wait. */
function startIfChecked() {
  const button = document.getElementById("start-button");
  if (!startsWhenChecked || document.getElementById("preflight-wait")) return startsWhenChecked && showState(form.dataset.starts);
  startsWhenChecked = false;
  if (!button.disabled && planned === edits) form.requestSubmit(button);
}
form.addEventListener("input", () => (startsWhenChecked = false));
document.addEventListener("htmx:afterSettle", startIfChecked);

form.querySelectorAll("textarea").forEach(grow);
show();
document.getElementById("errors")?.focus();

// A link beside a value opened the form at its field.
const opened = document.getElementById(form.dataset.opened ?? "");
if (opened && !("refused" in form.dataset)) {
  for (let fold = opened.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const field = opened.matches("input, textarea, select") ? opened : opened.querySelector("textarea, input, select");
  field?.focus({ preventScroll: true });
  opened.scrollIntoView({ block: "center" });
}
