"""Reading: locations, runs, checkpoints, jobs, questions, searches, comparisons and exports."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Path, Query, Schema
from ninja.errors import HttpError
from pydantic import Field

from viewer.cli.commands.checkpoints import diff_document, info_document
from viewer.cli.commands.launches import listed
from viewer.cli.commands.runs import MAX_RESULTS, results_document, run_document
from viewer.cli.rows import ListedCheckpoint, branch_documents, checkpoint_document, rows_of
from viewer.cli.running import event_document, is_over, waiting_questions
from viewer.cli.starting import job_document
from viewer.host_requests import ImportRun, ask
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Location, Question, Right, Run
from viewer.presentation.export import ALL_FORMATS
from viewer.records.audit import Action, Audited, opens, record
from viewer.records.search_filters import Filters, filters_from
from viewer.web.api import examples
from viewer.web.api.interface import MAX_KEY, answer, refused, route

Key = Annotated[int, Path(ge=1, le=MAX_KEY, description="The key of a checkpoint.")]
MAX_LISTED = 500
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED, description="How many are returned at most.")]
After = Annotated[
    str, Query(max_length=100, description="The `next` of the page before; empty for the first page.")
]


def page(name: str, rows: Any, limit: int, document: Callable[[Any], Any], mark: str) -> HttpResponse:
    """Return a page of a list. Its cursor is the attribute ``mark`` of the last row."""
    found = list(rows[: limit + 1])
    following = str(getattr(found[limit - 1], mark)) if len(found) > limit else None
    return answer({name: [document(row) for row in found[:limit]], "next": following})


def _wrong_cursor() -> HttpError:
    return HttpError(422, "after: this is not the next of a page of this list.")


def _number(text: str) -> int:
    """The number in a cursor. Raises HttpError for another text."""
    if text.isascii() and text.isdigit() and int(text) <= MAX_KEY:
        return int(text)
    raise _wrong_cursor()


def location_document(location: Location) -> dict[str, Any]:
    """A location."""
    return {
        "key": str(location.uid),
        "location": location.path,
        "host": str(location.host),
        "engine": location.engine,
        "store_kind": location.store_kind,
        "imported_at": location.imported_at.isoformat() if location.imported_at else None,
        "error": translate(location.read_error),
    }


@route("GET", "/locations", name="api-locations", right=Right.VIEW, example=examples.LOCATIONS)
def locations(request: HttpRequest, after: After = "", limit: Limit = 100) -> HttpResponse:
    """List the locations that the token sees, the oldest first."""
    rows = Location.objects.select_related("host").order_by("pk")
    if after:
        rows = rows.filter(pk__gt=_number(after))
    return page("locations", rows, limit, location_document, "pk")


@route("GET", "/locations/{uuid:uid}", name="api-location", right=Right.VIEW, example=examples.LOCATION)
def location(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return a location."""
    return answer(location_document(get_object_or_404(Location.objects.select_related("host"), uid=uid)))


@route("GET", "/locations/{uuid:uid}/runs", name="api-runs", right=Right.VIEW, example=examples.RUNS)
def runs(request: HttpRequest, uid: UUID, after: After = "", limit: Limit = 100) -> HttpResponse:
    """List the runs of a location, those that were found last first, without their checkpoints."""
    found = get_object_or_404(Location, uid=uid)
    rows = found.runs.order_by("-pk")
    if after:
        rows = rows.filter(pk__lt=_number(after))
    return page("runs", rows, limit, lambda run: run_document(run, []), "pk")


def _imported_run(uid: UUID) -> Run:
    run = get_object_or_404(Run.objects.select_related("location__project", "parent"), uid=uid)
    if ask(ImportRun(run.pk)).is_news:
        run.refresh_from_db()
    return run


@route("GET", "/runs/{uuid:uid}", name="api-run", right=Right.VIEW, example=examples.RUN)
def run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return a run with its branches, and what is new at its location."""
    found = _imported_run(uid)
    heads = found.checkpoints.filter(is_branch_head=True).select_related("location", "run").order_by("row")
    return answer({**run_document(found, []), "branches": branch_documents(list(heads))})


@route(
    "GET",
    "/runs/{uuid:uid}/checkpoints",
    name="api-checkpoints",
    right=Right.VIEW,
    example=examples.CHECKPOINTS,
)
def checkpoints(request: HttpRequest, uid: UUID, after: After = "", limit: Limit = 100) -> HttpResponse:
    """List the checkpoints of a run, the oldest first."""
    found = (
        get_object_or_404(Run.objects.select_related("location"), uid=uid) if after else _imported_run(uid)
    )
    rows: list[ListedCheckpoint] = rows_of(found, _number(after) + 1 if after else 0, limit + 1)
    return page("checkpoints", rows, limit, checkpoint_document, "row")


@route("GET", "/checkpoints/{int:key}", name="api-checkpoint", right=Right.VIEW, example=examples.CHECKPOINT)
def checkpoint(request: HttpRequest, key: Key) -> HttpResponse:
    """Return what a checkpoint holds, without the secrets in it, as `forkline info --json`."""
    row = get_object_or_404(
        Checkpoint.objects.select_related("location__project", "run", "stored_copy"), pk=key
    )
    opens(Audited.CHECKPOINT, row.pk)
    return answer(info_document(row)[0])


@route("GET", "/compare", name="api-compare", right=Right.VIEW, example=examples.COMPARISON)
def compare(
    request: HttpRequest,
    a: Annotated[int, Query(ge=1, le=MAX_KEY, description="The key of the baseline.")],
    b: Annotated[int, Query(ge=1, le=MAX_KEY, description="The key of the other checkpoint.")],
) -> HttpResponse:
    """Return what differs between two checkpoints, as `forkline diff --json`."""
    rows = Checkpoint.objects.select_related("location__project", "run", "stored_copy")
    found = [get_object_or_404(rows, pk=key) for key in (a, b)]
    opens(Audited.COMPARISON, f"{a} {b}")
    return answer(diff_document(found)[0])


class SearchQuery(Schema):
    """The filters of a search, as of the page and of `forkline search`. Empty ones do not filter."""

    q: str = Field("", description='Words. `-word` excludes one, and "a phrase" is one in quotes.')
    location: str = Field("", description="The key or path of a location, or a part of the path.")
    kind: str = ""
    entity: str = ""
    agent: str = ""
    unit: str = ""
    model: str = ""
    branch: str = ""
    trigger: str = ""
    status: str = ""
    since: str = Field("", description="The first day, as YYYY-MM-DD.")
    until: str = Field("", description="The last day, as YYYY-MM-DD.")
    tokens: str = Field("", description="The least number of tokens of the checkpoint.")
    cost: str = Field("", description="The least cost of the run, in US dollars.")
    version: str = Field("", description="The version of the engine.")
    edited: Literal["", "1"] = ""
    unattended: Literal["", "1"] = ""


@route("GET", "/search", name="api-search", right=Right.VIEW, example=examples.RESULTS)
def search(
    request: HttpRequest,
    filters: Query[SearchQuery],
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=MAX_RESULTS)] = 30,
) -> HttpResponse:
    """Search the texts of all checkpoints, the newest first, as `forkline search --json`."""
    wanted: Filters = filters_from(filters.dict())
    if not wanted:
        return refused("q: name a word, or a filter.", 422)
    document, found = results_document(wanted, limit, _number(after) if after else None)
    return answer({**document, "next": None if found.before is None else str(found.before)})


def listed_job(job: Job) -> dict[str, Any]:
    """A job in a list: without its checkpoints, plan and findings."""
    return {
        "job": str(job.pk),
        "kind": job.kind,
        "status": job.status,
        "branch": job.branch,
        "location": job.location.path,
        "run": str(job.run.uid) if job.run else None,
        "checkpoint": job.checkpoint_id,
        "sweep": str(job.sweep_id) if job.sweep_id else None,
        "requested_by": job.requested_by.get_username() if job.requested_by else None,
        "created_at": job.created_at.isoformat(),
        "started_at": job.started_at.isoformat() if job.started_at else None,
        "ended_at": job.ended_at.isoformat() if job.ended_at else None,
        "tokens": job.tokens,
        "error": translate(job.error),
    }


def _jobs_after(text: str) -> Q:
    """The condition of the jobs after a cursor, also a removed one. Raises HttpError for another text."""
    at, _blank, key = text.partition("_")
    try:
        moment, last = datetime.fromisoformat(at), UUID(key)
        # One near the ends of the calendar has no time in UTC, in which it is compared.
        is_known = moment.tzinfo is not None and bool(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        is_known = False
    if not is_known:
        raise _wrong_cursor()
    return Q(created_at__lt=moment) | Q(created_at=moment, pk__lt=last)


@route("GET", "/jobs", name="api-jobs", right=Right.VIEW, example=examples.JOBS)
def jobs(
    request: HttpRequest,
    status: Annotated[str, Query(max_length=20, description="Only jobs with this status.")] = "",
    after: After = "",
    limit: Limit = 100,
) -> HttpResponse:
    """List the jobs, the newest first."""
    if status and status not in Job.Status.values:
        return refused(f"status: choose one of {', '.join(Job.Status.values)}.", 422)
    rows = Job.objects.select_related("location", "run", "requested_by").order_by("-created_at", "-pk")
    rows = rows.filter(status=status) if status else rows
    if after:
        rows = rows.filter(_jobs_after(after))
    found = list(rows[: limit + 1])
    for job in found:
        job.cursor = f"{job.created_at.isoformat()}_{job.pk}"  # type: ignore[attr-defined]
    return page("jobs", found, limit, listed_job, "cursor")


def answer_job(job: Job, status: int = 200) -> HttpResponse:
    """Return a job as the terminal prints it, with the plan that was shown when it was started."""
    return answer(
        {**listed_job(job), **job_document(job, [], waiting_questions(job)), "plan": job.plan}, status
    )


@route("GET", "/jobs/{uuid:uid}", name="api-job", right=Right.VIEW, example=examples.JOB)
def job(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return a job: its status, the checkpoints that it has written, its result and its pending questions."""
    rows = Job.objects.select_related("location", "run", "requested_by")
    return answer_job(get_object_or_404(rows, pk=uid))


@route("GET", "/jobs/{uuid:uid}/events", name="api-job-events", right=Right.VIEW, example=examples.EVENTS)
def job_events(
    request: HttpRequest,
    uid: UUID,
    after: Annotated[int, Query(ge=0, le=MAX_KEY, description="The `next` of the page before.")] = 0,
    limit: Limit = 100,
) -> HttpResponse:
    """List what a job did after an event, the oldest first. `is_over` is true once it has ended, or asks.

    Ask again a second later, with `next`, until `is_over` is true and there are no more events.
    """
    found = get_object_or_404(Job.objects.select_related("location", "host"), pk=uid)
    if not after:
        record(Action.OPENED, Audited.JOB, found.pk)
    # Before its events are read: those before its end are stored before it has ended.
    ended = is_over(found)
    rows = list(found.events.filter(seq__gt=after).order_by("seq")[:limit])
    return answer(
        {
            "job": str(found.pk),
            "branch": found.branch,
            "status": found.status,
            "is_over": ended and len(rows) < limit,
            "events": [shown for event in rows if (shown := event_document(event))],
            "next": rows[-1].seq if rows else after,
        }
    )


@route("GET", "/questions", name="api-questions", right=Right.VIEW, example=examples.QUESTIONS)
def questions(request: HttpRequest) -> HttpResponse:
    """List the questions that wait for a person, the oldest first, as `forkline answer --json`."""
    rows = Question.objects.waiting().select_related("job").order_by("asked_at", "pk")
    return answer(listed(list(rows)).document)


@route(
    "GET",
    "/runs/{uuid:uid}/export",
    name="api-export",
    right=Right.VIEW,
    example={},
    answers={200: "The file, in the format's own media type."},
    media_types={wanted.media_type for wanted in ALL_FORMATS.values()},
)
def export(
    request: HttpRequest,
    uid: UUID,
    format: Annotated[Literal[tuple(ALL_FORMATS)], Query()] = "json",  # type: ignore[valid-type]
) -> HttpResponse:
    """Return a run as one file, as `forkline export`."""
    found = _imported_run(uid)
    opens(Audited.RUN, found.uid, format)
    wanted = ALL_FORMATS[format]
    return HttpResponse(wanted.write(found), content_type=f"{wanted.media_type}; charset=utf-8")
