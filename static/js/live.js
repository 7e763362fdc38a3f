// Keeps an open page up to date. The server sends parts of the page, and htmx swaps them in.

import "./jobs/updates.js";
import { notifyOfChanges } from "./notify.js";

const ABNORMAL = [1006, 1011, 1012, 1013];
// Codes of viewer/web/live/feeds.py. The socket is not opened again after them.
const LOGGED_OUT = 4401;
const RIGHT_CHANGED = 4403;
const NOT_THERE = 4404;

/** Returns the number of the last event of a job that this page shows. */
function lastSeen(job) {
  const seen = [...document.querySelectorAll(`[data-job="${job}"]`)].map((element) => Number(element.dataset.seq));
  return Math.max(0, ...seen);
}

/** Returns the URL of a socket with what the page already shows: the last event, or the jobs of its bars. */
function withPosition(address) {
  const url = new URL(address);
  const [, kind, id] = url.pathname.match(/\/ws\/(\w+)\/([^/]+)\//) ?? [];
  if (kind === "jobs") url.searchParams.set("after", lastSeen(id));
  if (kind === "locations") {
    const bars = [...document.querySelectorAll("[data-job-bar]")].map((bar) => bar.dataset.jobBar);
    url.searchParams.set("shown", bars.join(","));
    const present = document.getElementById("present");
    if (present) url.searchParams.set("run", present.dataset.run);
  }
  // On a page of several locations, the address has what the user may do at its own.
  if (!url.searchParams.has("may")) url.searchParams.set("may", document.body.dataset.may);
  return url;
}

// htmx reconnects to the same URL; add the page's present position for each connection.
htmx.createWebSocket = (address) => new WebSocket(withPosition(address));
htmx.config.wsReconnectDelay = (tries) => Math.min(250 * 2 ** tries, 8000) * (0.5 + Math.random() / 2);

document.addEventListener("htmx:wsOpen", ({ target }) => target.classList.remove("is-lost"));
document.addEventListener("htmx:wsClose", ({ target, detail }) => {
  const { code } = detail.event;
  if (ABNORMAL.includes(code)) target.classList.add("is-lost");
  if (code === LOGGED_OUT) showEnd("logged-out");
  // Nothing of a share link stays on the screen when it ends.
  if (code === NOT_THERE && "shared" in document.body.dataset) location.reload();
  else if (code === NOT_THERE) showEnd("not-there");
  // The page has the buttons of another permission.
  if (code === RIGHT_CHANGED) location.reload();
});

/** Shows why the page no longer receives updates. Its content stays readable. */
function showEnd(id) {
  document.body.dataset.ended = id;
  for (const lost of document.querySelectorAll(".is-lost")) lost.classList.remove("is-lost");
  document.getElementById(id).hidden = false;
}
const hasEnded = () => "ended" in document.body.dataset;
document.addEventListener("htmx:beforeRequest", (event) => {
  // The response would be the login page.
  if (hasEnded() && event.detail.elt.matches('[hx-trigger*="every"], [hx-trigger*="location-changed"]')) event.preventDefault();
});

// Parts that are fetched again when their location changes. Changes are dispatched after they have loaded.
const REFETCHED = '[hx-trigger*="location-changed"]';
const SWAP_MILLISECONDS = 60;
const RETRY_MILLISECONDS = 1000;
const fetching = new Set();
let knownState = shownState();

/** Returns the location's revision and its number of ended jobs, as the page shows them. */
function shownState() {
  const { revision, ended } = document.querySelector("#location-revision")?.dataset ?? {};
  return `${revision} ${ended}`;
}

function dispatchChanges() {
  const latest = shownState();
  if (latest === knownState || fetching.size) return;
  knownState = latest;
  document.body.dispatchEvent(new CustomEvent("location-changed"));
}

// The title shows the status of the page's job; of several jobs, first of one that waits for a person.
const plainTitle = () => document.body.dataset.title ?? (document.body.dataset.title = document.title);
function showTitle() {
  const shown = [...document.querySelectorAll("[data-status][data-state]")];
  if (!shown.length && !("title" in document.body.dataset)) return;
  const own = document.querySelector(".job-head [data-status]");
  const shownJob = own ?? ["asking", "under-way", "ended"].map((state) => shown.find((one) => one.dataset.state === state)).find(Boolean);
  const plain = own ? document.querySelector(".job-head h1").textContent + " · Forkline" : plainTitle();
  document.title = shownJob ? `${shownJob.dataset.status}: ${plain}` : plain;
}
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  // Another checkpoint was opened, which has another title.
  if (detail.target.id === "detail") delete document.body.dataset.title;
  showTitle();
});
showTitle();
notifyOfChanges();

document.addEventListener("htmx:wsAfterMessage", () => {
  showTitle();
  notifyOfChanges();
  dispatchChanges();
  keepEndInView();
});
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  if (detail.elt.matches(REFETCHED)) fetching.add(detail.xhr);
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  // Retry a failed request, such as during a restart of the server.
  if (fetching.has(detail.xhr) && !detail.successful) {
    knownState = "";
    setTimeout(dispatchChanges, RETRY_MILLISECONDS);
  }
  // htmx adds its listeners to swapped elements a moment later.
  setTimeout(() => fetching.delete(detail.xhr) && dispatchChanges(), SWAP_MILLISECONDS);
});

// A list of events that is scrolled to its end stays at its end.
let atEnd = false;
document.addEventListener("htmx:wsBeforeMessage", () => {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  atEnd = scrollTop > 0 && scrollHeight - clientHeight - scrollTop < 40;
});
function keepEndInView() {
  if (atEnd && document.querySelector(".job-events")) window.scrollTo({ top: document.documentElement.scrollHeight });
}

// The bar of an ended job stays until it is closed.
document.addEventListener("click", ({ target }) => target.closest("[data-close-bar]")?.closest("[data-job-bar], .attention-job").remove() ?? showTitle());

/** Formats whole seconds with the units of days, hours, minutes and seconds, as viewer/formats.py does. */
function asDuration(seconds, units) {
  const numbers = [seconds / 86400, (seconds / 3600) % 24, (seconds / 60) % 60, seconds % 60].map(Math.floor);
  const found = numbers.findIndex((number) => number > 0);
  const first = found < 0 ? numbers.length - 1 : found;
  const shown = units.map((unit, index) => unit.replace("%(number)s", numbers[index]));
  return shown.filter((text, index) => index >= first && index < first + 2 && (numbers[index] || index === first)).join(" ");
}

setInterval(() => {
  if (hasEnded()) return;
  for (const clock of document.querySelectorAll("[data-elapsed-since]")) {
    const seconds = Math.max(0, Date.now() / 1000 - Number(clock.dataset.elapsedSince));
    clock.textContent = asDuration(seconds, JSON.parse(clock.dataset.units));
  }
}, 1000);
