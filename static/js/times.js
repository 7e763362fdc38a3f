// Formats the times of a page in the time zone and with the clock that the user has chosen. Pages are rendered
// in the server's time zone, with 24 hours.
//
// A classic script in the head: it runs before the page is painted, so that no other time is seen first.

(() => {
  const { lang, dataset } = document.documentElement;
  // Undefined for that of the browser.
  const timeZone = { utc: "UTC", server: dataset.zone }[dataset.times];
  const day = { day: "numeric", month: "short" };
  const hours = dataset.clock === "12" ? { hour: "numeric", hourCycle: "h12" } : { hour: "2-digit", hourCycle: "h23" };
  const clock = { ...hours, minute: "2-digit" };
  const seconds = { ...clock, second: "2-digit" };
  // As in viewer/formats.py.
  const formats = {
    full: { ...day, year: "numeric", ...seconds, timeZoneName: "short" },
    minute: { ...day, year: "numeric", ...clock, timeZoneName: "short" },
    recent: { ...day, ...seconds, timeZoneName: "short" },
    day_and_time: { ...day, ...clock },
    day: { ...day, year: "numeric" },
    clock: seconds,
    time: clock,
  };
  const known = new Map();

  /** Returns the formatter of one of the formats. Digits are the same as elsewhere on the page. */
  function formatter(options) {
    const key = JSON.stringify(options);
    if (!known.has(key)) known.set(key, new Intl.DateTimeFormat(`${lang === "en" ? "en-GB" : lang}-u-nu-latn`, { ...options, timeZone }));
    return known.get(key);
  }

  function dayOf(at) {
    return formatter(formats.day).format(at);
  }

  /** Returns the options for the time of a moment of today, or for another day. */
  function short(at) {
    if (dayOf(at) === dayOf(new Date())) return formats.time;
    return at.getFullYear() === new Date().getFullYear() ? formats.day_and_time : formats.day;
  }

  function show(element) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) return;
    const { time } = element.dataset;
    if (element.title) element.title = formatter(formats.full).format(at);
    if (time) element.textContent = formatter(time === "short" ? short(at) : formats[time]).format(at);
    element.dataset.shown = "";
  }

  function showAll(root) {
    for (const element of root.querySelectorAll("time:not([data-shown])")) show(element);
  }

  new MutationObserver((changes) => {
    for (const { addedNodes, target } of changes) {
      for (const node of addedNodes) if (node.nodeType === Node.ELEMENT_NODE) showAll(node.parentElement ?? node);
      if (target.localName === "time" && !("shown" in target.dataset)) show(target);
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
