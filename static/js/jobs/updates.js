// Shows the updates of a job: fragments of the page, which htmx swaps in, and its events and streamed text as data.
//
// Models and tools write these texts, so they are only ever set as text. Rows are as in templates/jobs/_events.html.

let update = null;

htmx.defineExtension("job-updates", {
  transformResponse(message) {
    if (!message.startsWith("{")) return message;
    update = JSON.parse(message);
    return update.html ?? "";
  },
});

document.addEventListener("htmx:wsAfterMessage", () => {
  if (update) show(update);
  update = null;
});

function show({ job, seq, text, added_to: addedTo, added, rows, run }) {
  const progress = document.getElementById(`job-${job}-progress`);
  const streamed = progress?.querySelector(".job-streamed bdi");
  if (text && streamed) streamed.textContent = text;
  if (addedTo) document.getElementById(`job-${job}-text-${addedTo}`)?.append(added);
  if (rows) document.getElementById(`job-${job}-events`)?.append(...rows.map((row) => rowOf(row, job, run)));
  // The number of the last event that the page shows, from which it continues when it reconnects.
  if (progress) progress.dataset.seq = seq;
}

/** Returns a new element with a class and children, of which strings are text. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}

function rowOf(row, job, run) {
  const made = element("li", `job-event is-${row.tone} kind-${row.kind}`, timeOf(row), signOf(), labelOf(row, job, run));
  made.dataset.event = row.event;
  const figures = [row.agent, row.tokens].filter(Boolean).join(" · ");
  if (figures) made.append(element("span", "job-event-agent muted number", figures));
  return made;
}

/** Returns the time of day at the server. js/times.js formats it in another time zone that the user has chosen. */
function timeOf({ at, clock }) {
  const made = element("time", "mono", clock);
  made.dateTime = at;
  made.dataset.time = "clock";
  return made;
}

function signOf() {
  const made = element("span", "job-event-sign");
  made.ariaHidden = "true";
  return made;
}

function labelOf(row, job, run) {
  const label = element("div", "job-event-label");
  if (row.kind === "text") {
    label.append(element("span", "job-event-text mono", row.text));
    label.firstChild.id = `job-${job}-text-${row.event}`;
  } else if (row.checkpoint) {
    label.append(`${row.text}: `, checkpointOf(row.checkpoint, run));
  } else {
    label.append(row.text);
  }
  if (row.detail) {
    label.append(element("details", "fold", element("summary", "", row.summary), element("pre", "text-block", row.detail)));
  }
  return label;
}

/** Returns the id of a checkpoint, as a link if its run is known. */
function checkpointOf(id, run) {
  const made = element(run ? "a" : "span", "mono", id);
  // As Django writes it in an address.
  if (run) made.href = `${run}?at=${encodeURIComponent(id).replaceAll("%2F", "/")}`;
  return made;
}
