// Desktop notifications, if the user chose them: when a job of the page ends or asks for an answer.

const shownStates = new Map();

/** Notifies of the jobs whose state has changed to one that a person wants to know. */
export function notifyOfChanges() {
  for (const { dataset } of document.querySelectorAll("[data-status][data-state]")) {
    const before = shownStates.get(dataset.job);
    shownStates.set(dataset.job, dataset.state);
    const isNews = before !== undefined && before !== dataset.state && dataset.state !== "under-way";
    if (isNews && document.hidden && "notifies" in document.body.dataset) notify(dataset);
  }
}

function notify({ job, status }) {
  if (globalThis.Notification?.permission !== "granted") return;
  const sentence = document.getElementById(`job-${job}-sentence`)?.textContent.replace(/\s+/g, " ").trim();
  new Notification(status, { body: sentence, tag: job });
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-asks-permission]") && target.checked) globalThis.Notification?.requestPermission();
});
