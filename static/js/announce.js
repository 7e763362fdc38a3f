// What happens to jobs, said to people who hear a page. Announced once, whatever is sent again.

const PROGRESS_MILLISECONDS = 10_000;
// What was last said of each job, by its id. A page that connects again is sent what it knows already.
const known = new Map();
let waiting = "";
let timer = 0;

/** Say it: after what is being read, or at once where it is urgent. */
export function announce(text, isUrgent = false) {
  const region = document.getElementById(isUrgent ? "announced-now" : "announced");
  if (!region || !text) return;
  // The same words again are words, too.
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

/** Progress comes often: the latest of it is said every ten seconds. */
function announceProgress(text) {
  waiting = text;
  timer ||= setTimeout(() => {
    timer = 0;
    announce(waiting);
    waiting = "";
  }, PROGRESS_MILLISECONDS);
}

const textOf = (element) => element?.textContent.replace(/\s+/g, " ").trim() ?? "";

/** What the page shows of a job: its status, its question, how far it is, and all that in words. */
function stateOf(progress) {
  const sentence = textOf(progress.querySelector(".job-sentence"));
  return {
    status: [...progress.classList].find((name) => name.startsWith("is-")) ?? "",
    asks: textOf(progress.querySelector(".job-asks")),
    done: progress.querySelector("progress")?.value ?? 0,
    sentence,
    reason: textOf(progress.querySelector(".job-words")),
    words: [sentence, textOf(progress.querySelector(".job-done"))].filter(Boolean).join(", "),
  };
}

function tellOf(progress) {
  const job = progress.dataset.job;
  const now = stateOf(progress);
  const before = known.get(job);
  known.set(job, now);
  if (now.asks && now.asks !== before?.asks) announce(`${now.sentence}. ${now.asks}`, true);
  else if (now.status !== before?.status) {
    // What was to be said of its progress is no longer true.
    waiting = "";
    const hasFailed = now.status === "is-failed" || now.status === "is-interrupted";
    announce(hasFailed ? `${now.sentence}. ${now.reason}` : now.words, hasFailed);
  } else if (now.done !== before.done || now.sentence !== before.sentence) announceProgress(now.words);
}

const shown = () => document.querySelectorAll("[data-job]");
for (const progress of shown()) known.set(progress.dataset.job, stateOf(progress));
document.addEventListener("htmx:wsAfterMessage", () => shown().forEach(tellOf));

// The page that a start leads to says that it has begun, and the keyboard goes on there.
const begun = new URLSearchParams(location.search).get("job");
const bar = begun && document.querySelector(`[data-job="${CSS.escape(begun)}"]`);
if (bar && performance.getEntriesByType("navigation")[0]?.type === "navigate") {
  announce(stateOf(bar).words);
  bar.querySelector("a")?.focus({ preventScroll: true });
}
