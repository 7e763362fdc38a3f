// Saves what is typed into a form until it is sent, separately for each tab. Possible secrets and accepted effects
// and losses are not saved.

const PREFIX = "draft:";
const NEVER = new Set(["csrfmiddlewaretoken", "key", "shown", "accepted", "accept-hidden"]);
const LOOKS_SECRET = /\b(?:sk|pk|gh[opsu]|xox[a-z]|AKIA)[-_]?\w{12,}|-----BEGIN |\b\w*(?:key|secret|token|passw\w*)["']?\s*[:=]\s*\S{6,}/i;
// For fields that the page does not mark.
const SECRET_NAME = /(?:key|token|secret|passw\w*|credential|cookie|auth\w*)s?$/i;
const form = document.querySelector("form[data-draft]");

function stored(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

function store(name, draft) {
  try {
    sessionStorage.setItem(name, JSON.stringify(draft));
  } catch {
    // The storage is full: the form works without a draft.
    sessionStorage.removeItem(name);
  }
}

const names = () => Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX));
let isLoggedOut = false;

function removeAll() {
  isLoggedOut = true;
  names().forEach((name) => sessionStorage.removeItem(name));
}

// A logout removes the drafts of every tab.
const tabs = new BroadcastChannel("forkline-drafts");
tabs.addEventListener("message", removeAll);
document.addEventListener("submit", ({ target }) => {
  if (!target.matches("[data-logout]")) return;
  removeAll();
  tabs.postMessage("logout");
});

// A form that was sent and is not shown again has started its run: remove its draft.
const isRefused = form?.hasAttribute("data-refused") ?? false;
const own = form && PREFIX + form.dataset.draft;
for (const name of names()) {
  const draft = stored(name);
  if (!draft?.sent) continue;
  if (name === own && isRefused) store(name, { ...draft, sent: false });
  else sessionStorage.removeItem(name);
}

if (form) saveDraft(form);

function saveDraft(form) {
  const notice = document.getElementById("draft-notice");
  let pending = [];
  let isDiscarded = false;

  const isChoice = (control) => ["checkbox", "radio"].includes(control.type);
  const isPrivate = (control) => control.closest("[data-undrafted]") || SECRET_NAME.test(control.name);
  const isLeftOut = (control) =>
    !control.name || NEVER.has(control.name) || control.type === "hidden" || control.closest("#preflight") || isPrivate(control);
  const controls = () => [...form.elements].filter((control) => control.matches("input, textarea, select") && !isLeftOut(control));

  function isChanged(control) {
    if (isChoice(control)) return control.checked !== control.defaultChecked || (control.checked && control.closest("#plan"));
    if (control.matches("select")) {
      const chosen = [...control.options].find((option) => option.defaultSelected) ?? control.options[0];
      return chosen !== control.selectedOptions[0];
    }
    return control.value !== control.defaultValue;
  }

  // ``at`` is the index among the fields of the same name.
  function entryOf(control) {
    if (isChoice(control)) return { name: control.name, choice: control.value, is: control.checked };
    const at = [...form.elements].filter((other) => other.name === control.name).indexOf(control);
    return { name: control.name, at, text: control.value };
  }
  const sameField = (one, other) => one.name === other.name && one.choice === other.choice && one.at === other.at;

  /** Returns another textarea of this name, like the button for another variant adds; null if there is none. */
  function added(entry) {
    const last = controls().filter((one) => one.name === entry.name && one.matches("textarea")).at(-1);
    if (!last || !entry.at) return null;
    const copy = last.cloneNode(false);
    copy.removeAttribute("id");
    last.after(copy);
    return copy;
  }

  function save() {
    if (isDiscarded || isLoggedOut) return;
    // A refused form shows what was sent as its default values: keep the entries that are known to be changes.
    const before = isRefused ? (stored(own)?.entries ?? []) : [];
    const found = controls();
    const entries = found
      .filter((control) => isChanged(control) || before.some((entry) => sameField(entry, entryOf(control))))
      .map(entryOf);
    const kept = entries.filter((entry) => !LOOKS_SECRET.test(entry.text ?? ""));
    const secrets = kept.length < entries.length || [...form.elements].some((control) => control.matches(".input") && isPrivate(control) && isChanged(control));
    if (kept.length || secrets) store(own, { entries: kept, secrets, sent: false });
    else sessionStorage.removeItem(own);
  }

  /** Restores an entry. Returns false if its field is not on the page yet. */
  function fill(entry) {
    const control = controls().find((one) => sameField(entryOf(one), entry)) ?? added(entry);
    if (!control) return false;
    if (isChoice(control)) control.checked = entry.is;
    else {
      control.value = entry.text;
      if (control.matches("select") && control.selectedIndex < 0) control.selectedIndex = 0;
    }
    for (let fold = control.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    return true;
  }

  function restore(draft) {
    pending = draft.entries.filter((entry) => !fill(entry));
    notice.hidden = false;
    document.getElementById("draft-secrets").hidden = !draft.secrets;
    // Update the plan; htmx listens once the document has loaded.
    const follow = () => form.dispatchEvent(new Event("input", { bubbles: true }));
    if (document.readyState === "complete") follow();
    else window.addEventListener("load", follow, { once: true });
  }

  const draft = stored(own);
  if (draft && !isRefused) restore(draft);

  form.addEventListener("input", save);
  form.addEventListener("htmx:afterSettle", () => {
    // Fields of the plan appear with its update.
    const still = pending.filter((entry) => !fill(entry));
    const hasFilled = still.length < pending.length;
    pending = hasFilled ? still : [];
    if (hasFilled) form.dispatchEvent(new Event("input", { bubbles: true }));
    else save();
  });
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.submitter?.hasAttribute("formaction")) return;
    const last = stored(own);
    if (last) store(own, { ...last, sent: true });
  });
  document.getElementById("draft-discard").addEventListener("click", () => {
    isDiscarded = true;
    sessionStorage.removeItem(own);
    location.assign(form.dataset.fresh);
  });
}
