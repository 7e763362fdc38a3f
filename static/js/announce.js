// Announces what happens to jobs in the page's one live region. Each change is announced once.

const PROGRESS_MILLISECONDS = 10_000;
// The last announced state of each job, by its id. A page that reconnects receives known states again.
const known = new Map();
let waiting = "";
let timer = 0;

/** Announces the text after what a screen reader is reading. */
export function announce(text) {
  const region = document.getElementById("announcements");
  if (!region || !text) return;
  // Clearing first makes a screen reader read the same text again.
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

/** Progress changes often: only the latest is announced, every ten seconds. */
function announceProgress(text) {
  waiting = text;
  timer ||= setTimeout(() => {
    timer = 0;
    announce(waiting);
    waiting = "";
  }, PROGRESS_MILLISECONDS);
}

const textOf = (element) => element?.textContent.replace(/\s+/g, " ").trim() ?? "";

/** Returns what the page shows of a job: its status, question, progress and sentence. */
function stateOf(progress) {
  const sentence = textOf(progress.querySelector(".job-sentence"));
  return {
    status: [...progress.classList].find((name) => name.startsWith("is-")) ?? "",
    asks: textOf(progress.querySelector(".job-asks")),
    done: progress.querySelector("progress")?.value ?? 0,
    sentence,
    reason: textOf(progress.querySelector(".job-reason")),
    text: [sentence, textOf(progress.querySelector(".job-done"))].filter(Boolean).join(", "),
  };
}

function announceChange(progress) {
  const job = progress.dataset.job;
  const now = stateOf(progress);
  const before = known.get(job);
  known.set(job, now);
  if (now.asks && now.asks !== before?.asks) announce(`${now.sentence}. ${now.asks}`);
  else if (now.status !== before?.status) {
    // Progress that is not announced yet is out of date.
    waiting = "";
    const hasFailed = now.status === "is-failed" || now.status === "is-interrupted";
    announce(hasFailed ? `${now.sentence}. ${now.reason}` : now.text);
  } else if (now.done !== before.done || now.sentence !== before.sentence) announceProgress(now.text);
}

const shown = () => document.querySelectorAll("[data-job]");
for (const progress of shown()) known.set(progress.dataset.job, stateOf(progress));
document.addEventListener("htmx:wsAfterMessage", () => shown().forEach(announceChange));

// After a start, the page announces the job and moves the focus to it.
const begun = new URLSearchParams(location.search).get("job");
const bar = begun && document.querySelector(`[data-job="${CSS.escape(begun)}"]`);
if (bar && performance.getEntriesByType("navigation")[0]?.type === "navigate") {
  announce(stateOf(bar).text);
  bar.querySelector("a")?.focus({ preventScroll: true });
}
