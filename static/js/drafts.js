// Keeps what is typed into a form until it is sent: in this tab alone, so that two tabs never mix. What may be a
// secret is not kept, nor what a person has agreed to.

const PREFIX = "draft:";
const NEVER = new Set(["csrfmiddlewaretoken", "key", "shown", "accepted", "accept-hidden"]);
const LOOKS_SECRET = /\b(?:sk|pk|gh[opsu]|xox[a-z]|AKIA)[-_]?\w{12,}|-----BEGIN |\b\w*(?:key|secret|token|passw\w*)["']?\s*[:=]\s*\S{6,}/i;
// Of fields that the page does not mark itself.
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
    // The tab has no room for it: the form works without a draft.
    sessionStorage.removeItem(name);
  }
}

const names = () => Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX));
let isLoggedOut = false;

function forgetAll() {
  isLoggedOut = true;
  names().forEach((name) => sessionStorage.removeItem(name));
}

// A logout ends the drafts of every tab.
const tabs = new BroadcastChannel("forkline-drafts");
tabs.addEventListener("message", forgetAll);
document.querySelector("[data-logout]")?.addEventListener("submit", () => {
  forgetAll();
  tabs.postMessage("logout");
});

// A form that was sent and has led elsewhere has started what it was for.
const isRefused = form?.hasAttribute("data-refused") ?? false;
const own = form && PREFIX + form.dataset.draft;
for (const name of names()) {
  const draft = stored(name);
  if (!draft?.sent) continue;
  if (name === own && isRefused) store(name, { ...draft, sent: false });
  else sessionStorage.removeItem(name);
}

if (form) keepDraft(form);

function keepDraft(form) {
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

  // Of several fields of one name, ``at`` tells which.
  function entryOf(control) {
    if (isChoice(control)) return { name: control.name, choice: control.value, is: control.checked };
    const at = [...form.elements].filter((other) => other.name === control.name).indexOf(control);
    return { name: control.name, at, text: control.value };
  }
  const sameField = (one, other) => one.name === other.name && one.choice === other.choice && one.at === other.at;

  /** One more text of a name, as the button for another text would add it. */
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
    // The page of a refused form shows what was sent as if it were stored: what is known of it stays known.
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

  /** Puts an entry back. False where its field is not on the page, or not yet. */
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
    // The plan is of what the form holds now; htmx listens once the document is there.
    const follow = () => form.dispatchEvent(new Event("input", { bubbles: true }));
    if (document.readyState === "complete") follow();
    else window.addEventListener("load", follow, { once: true });
  }

  const draft = stored(own);
  if (draft && !isRefused) restore(draft);

  form.addEventListener("input", save);
  form.addEventListener("htmx:afterSettle", () => {
    // Choices of the plan are there once it has been worked out.
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
