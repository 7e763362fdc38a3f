"""Starts, answers and the like: each runs the command of its name, so both refuse the same."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Body, Header, Schema
from ninja.errors import HttpError
from pydantic import ConfigDict, Field

from viewer.cli import SUBCOMMANDS
from viewer.cli.commands.launches import cancelled, given
from viewer.cli.output import Output
from viewer.models import Checkpoint, IdempotencyKey, Job, Question, Right, Sweep
from viewer.validation import MAX_CHARACTERS
from viewer.web.api.examples import ANSWERED, CANCELLED, JOB, NOTED, SWEEP
from viewer.web.api.interface import Options, answer, given_in, options_of, parsed, route
from viewer.web.api.reading import Key, answer_job, listed_job

# What a program does not choose: a person has chosen it on the page of the location's project.
ENTRY_POINT = {"entrypoint", "graph", "kind"}
# What addresses name, and what is not about one checkpoint.
NOT_IN_BODY = {"checkpoint", "call", "ask_next", "all", "collection", "score"} | ENTRY_POINT


def run_command(command: str, row: Checkpoint, body: Options, *named: str, key: UUID | None = None) -> Output:
    """Return the output of a command about a checkpoint. Raises CommandError for an invalid option."""
    call = {"call": named[0]} if named else {}
    options = parsed(command, {**given_in(body), "checkpoint": "-", **call})
    return SUBCOMMANDS[command].handle({**options, "checkpoint": row, "key": key})


def runnable(key: int) -> Checkpoint:
    """Return a checkpoint on which the token has the right of the address. Raises Http404."""
    rows = Checkpoint.objects.select_related("location__project", "location__host", "run", "stored_copy")
    return get_object_or_404(rows, pk=key)


# Starts, once for each key.


IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Any text without blanks, such as a UUID. A call with the key of an earlier one starts "
        "nothing, and gets the job of that one. Required unless `plan` is true.",
    ),
]
STARTS = {
    201: "The job that was started, or its sweep.",
    200: "The job that an earlier call with this key has started, or the plan.",
}


def started(
    request: HttpRequest, command: str, row: Checkpoint, body: Options, key: str | None, *named: str
) -> HttpResponse:
    """Start what a command starts, at most once for a key of the person."""
    if getattr(body, "plan", False):
        output = run_command(command, row, body, *named)
        return answer(output.document, 409 if output.status else 200)
    stored = stored_key(request, body, key)
    if first := answer_started(stored.uid, 200):
        return first
    refuse_old(stored)
    output = run_command(command, row, body, *named, key=stored.uid)
    # Of two calls at once, the second one may have been refused because the first one has started it.
    return answer_started(stored.uid, 201 if not output.status else 200) or answer(output.document, 409)


def stored_key(request: HttpRequest, body: Options, key: str | None) -> IdempotencyKey:
    """Return the row of the key of a start. Raises HttpError for none, and for that of another request."""
    if key is None:
        raise HttpError(422, "Idempotency-Key: send a text of your own with each start, such as a UUID.")
    content = json.dumps([request.path_info, body.dict(exclude_unset=True)], sort_keys=True)
    stored = IdempotencyKey.first(request.user, key, content)
    if not stored.is_of(content):
        raise HttpError(422, "Idempotency-Key: this key was sent with another request. Use a new one.")
    return stored


def refuse_old(stored: IdempotencyKey) -> None:
    """Raise HttpError for a key that may start nothing: what it has started may have been removed since."""
    if stored.is_old:
        raise HttpError(409, "Idempotency-Key: this key is more than an hour old. Use a new one.")


def answer_started(key: UUID, status: int) -> HttpResponse | None:
    """Return the job or sweep that was started with a key; None if nothing was."""
    jobs = Job.objects.select_related("location", "run", "requested_by")
    if job := jobs.filter(idempotency_key=key).first():
        return answer_job(job, status)
    sweep = Sweep.objects.filter(idempotency_key=key).first()
    return answer(sweep_document(sweep), status) if sweep else None


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """A sweep with its jobs."""
    jobs = sweep.branches.select_related("location", "run", "requested_by")
    return {
        "group": str(sweep.pk),
        "name": sweep.name,
        "limits": sweep.limits,
        "branches": [{"variation": job.variation, **listed_job(job)} for job in jobs],
    }


@route("GET", "/sweeps/{uuid:uid}", name="api-sweep", right=Right.VIEW, example=SWEEP)
def sweep(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return the jobs of a sweep."""
    return answer(sweep_document(get_object_or_404(Sweep, pk=uid)))


def start_route(command: str, name: str, text: str, example: Mapping[str, Any] = JOB) -> None:
    """Declare the route of this name, which starts what a command starts from a checkpoint."""
    body_type = options_of(f"{command.capitalize()}Options", command, NOT_IN_BODY)

    def start(request, key, body, idempotency_key=None):  # type: ignore[no-untyped-def]
        return started(request, command, runnable(key), body, idempotency_key)

    # django-ninja reads the types of the parameters.
    start.__annotations__ = {
        **{"request": HttpRequest, "key": Key, "body": Annotated[body_type, cast(Any, Body)()]},
        **{"idempotency_key": IdempotencyHeader, "return": HttpResponse},
    }
    start.__doc__, start.__name__ = text, command
    address = f"/checkpoints/{{int:key}}/{command}"
    route("POST", address, name=name, right=Right.RUN, example=example, answers=STARTS)(start)


start_route("fork", "api-fork", "Continue from a checkpoint on a new branch, with edits, as `forkline fork`.")
start_route("resume", "api-resume", "Continue from a checkpoint on its own branch, as `forkline resume`.")
start_route("publish", "api-publish", "Write a draft to its location, as `forkline publish`.")
start_route(
    "sweep", "api-sweep-new", "Fork a checkpoint several times, over values, as `forkline sweep`.", SWEEP
)
ReplayOptions = options_of("ReplayOptions", "replay", NOT_IN_BODY)


@route(
    "POST",
    "/checkpoints/{int:key}/calls/{slug:call}/replay",
    name="api-replay",
    right=Right.RUN,
    example=JOB,
    answers=STARTS,
)
def replay(
    request: HttpRequest,
    key: Key,
    call: str,
    body: Annotated[ReplayOptions, Body()],  # type: ignore[valid-type]
    idempotency_key: IdempotencyHeader = None,
) -> HttpResponse:
    """Make a recorded model call again, edited, as `forkline replay`."""
    return started(request, "replay", runnable(key), body, idempotency_key, call)


# What a person does with a job that runs, or writes about a checkpoint.


@route("POST", "/jobs/{uuid:uid}/cancel", name="api-cancel", right=Right.CANCEL, example=CANCELLED)
def cancel(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Cancel a job, as `forkline cancel`. One that waits never starts; one that runs is stopped."""
    return answer(cancelled(get_object_or_404(Job, pk=uid)).document)


class AnswerText(Schema):
    """The answer to a question."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(
        max_length=MAX_CHARACTERS, pattern=r"^[^\x00]*$", description="Empty accepts the output."
    )


@route(
    "POST",
    "/jobs/{uuid:uid}/questions/{int:number}/answer",
    name="api-answer",
    right=Right.ANSWER,
    example=ANSWERED,
)
def answer_question(request: HttpRequest, uid: UUID, number: int, body: AnswerText) -> HttpResponse:
    """Answer a question, as `forkline answer`. The first answer counts."""
    rows = Question.objects.select_related("job__location")
    output = given(get_object_or_404(rows, job=uid, number=number), body.text)
    if output.status:
        return answer({**output.document, "error": " ".join(output.lines)}, 409)
    return answer(output.document)


NoteOptions = options_of("NoteOptions", "note", NOT_IN_BODY)


@route("POST", "/checkpoints/{int:key}/note", name="api-note", right=Right.ANNOTATE, example=NOTED)
def note(
    request: HttpRequest,
    key: Key,
    body: Annotated[NoteOptions, Body()],  # type: ignore[valid-type]
) -> HttpResponse:
    """Change the name, star, labels and note of a checkpoint, its branch or its run, as `forkline note`."""
    return answer(run_command("note", runnable(key), body).document)
