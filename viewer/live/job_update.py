"""The messages to open pages of a job, as JSON. static/js/jobs/updates.js shows them."""

import msgspec
from django.utils.text import Truncator
from django.utils.timezone import localtime
from django.utils.translation import ngettext

from viewer.formats.amounts import count_text
from viewer.formats.moments import moment_text
from viewer.models import Job
from viewer.presentation.jobs.event_list import EventList, EventRow
from viewer.presentation.jobs.progress import Progress

# As in templates/jobs/_events.html.
MAX_SUMMARY = 120


class RowData(msgspec.Struct, omit_defaults=True):
    """A row as templates/jobs/_events.html shows it. ``event`` is the event's number."""

    event: int
    kind: str
    tone: str
    at: str
    clock: str
    text: str
    agent: str = ""
    checkpoint: str = ""
    detail: str = ""
    # The beginning of the detail.
    summary: str = ""
    tokens: str = ""


class Update(msgspec.Struct, omit_defaults=True):
    """One message. ``seq`` is the number of the last event that it holds."""

    job: str
    seq: int
    # Fragments of the page that replace what it shows.
    html: str = ""
    # The streamed text in the progress bar.
    text: str = ""
    # Text to append to a row that was already sent.
    added_to: int | None = None
    added: str = ""
    rows: list[RowData] = []
    # The address of the run, to which rows with a checkpoint link.
    run: str = ""


def plain(value: object) -> str:
    """Return Django's safe strings as plain ones, which are all that is encoded."""
    if isinstance(value, str):
        return "".join(value)
    raise TypeError(f"cannot encode {type(value).__name__}")


encoder = msgspec.json.Encoder(enc_hook=plain)


def encoded(job: Job, progress: Progress, news: EventList, html: str, *, text: str) -> str:
    """Return the message with these rows and fragments, and this streamed text."""
    links = job.run is not None and any(row.checkpoint for row in news.rows)
    update = Update(
        job=str(job.pk),
        seq=progress.seq,
        html=html,
        text=text,
        added_to=news.added_to,
        added=news.added,
        rows=[data_of(row) for row in news.rows],
        run=job.run.get_absolute_url() if links and job.run else "",
    )
    return encoder.encode(update).decode()


def data_of(row: EventRow) -> RowData:
    """Return the values of a row, with their labels in the current language."""
    at = localtime(row.at)
    return RowData(
        event=row.seq,
        kind=row.kind,
        tone=row.tone,
        at=at.isoformat(),
        clock=moment_text(row.at, "clock"),
        text=row.text,
        agent=row.agent,
        checkpoint=row.checkpoint,
        detail=row.detail,
        summary=Truncator(row.detail).chars(MAX_SUMMARY) if row.detail else "",
        tokens=tokens_label(row.tokens) if row.tokens else "",
    )


def tokens_label(count: int) -> str:
    """Return a number of tokens with its unit."""
    return ngettext("%(counter)s token", "%(counter)s tokens", count) % {"counter": count_text(count)}
