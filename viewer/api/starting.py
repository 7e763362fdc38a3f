"""Starts, answers and the like: each runs the command of its name, so both refuse the same."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.core.management.base import CommandParser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import override
from ninja import Body, Header, Schema
from pydantic import ConfigDict, Field, create_model

from viewer.api.examples import ANSWERED, CANCELLED, JOB, NOTED, SWEEP
from viewer.api.interface import answer, refused, route
from viewer.api.reading import Key, answer_job, listed_job
from viewer.cli import SUBCOMMANDS
from viewer.cli.commands.jobs import cancelled, given
from viewer.cli.output import Output
from viewer.models import Checkpoint, IdempotencyKey, Job, Question, Right, Sweep
from viewer.validation import MAX_CHARACTERS

# What a program cannot choose: the files and programs of the server, and waiting.
TERMINAL_ONLY = {"project", "python", "env_file", "entrypoint", "graph", "kind", "wait", "ask_next", "help"}
# What is not about one checkpoint.
TERMINAL_ONLY |= {"all", "collection", "score"}


class Options(Schema):
    """The options of a command, by their names with underscores."""

    model_config = ConfigDict(extra="forbid")


@cache
def parser_of(command: str) -> CommandParser:
    """Return the parser of a command's arguments. An invalid one raises CommandError."""
    parser = CommandParser(prog=command)
    # The first request may be in another language.
    with override("en"):
        SUBCOMMANDS[command].add_arguments(parser)
    return parser


def options_of(command: str) -> type[Options]:
    """Return the type of a body with the options of a command, derived from its arguments."""
    fields: dict[str, Any] = {}
    for action in parser_of(command)._actions:
        if not action.option_strings or action.dest in TERMINAL_ONLY:
            continue
        text = (action.help or "") % {"default": action.default}
        name = action.option_strings[0].removeprefix("--").replace("-", "_")
        if action.nargs == 0:
            fields[name] = (bool, Field(False, description=text))
        elif action.choices:
            fields[name] = (Literal[tuple(action.choices)] | None, Field(None, description=text))
        else:
            typed = Annotated[str, Field(max_length=MAX_CHARACTERS)]
            # Only a terminal names files.
            metavar = str(action.metavar).replace("|@FILE", "")
            is_list = isinstance(action.default, list)
            kind: Any = list[typed] if is_list else typed | None
            fields[name] = (kind, Field([] if is_list else None, description=f"{metavar}: {text}"))
    name = f"{command.capitalize()}Options"
    return cast(type[Options], create_model(name, __base__=Options, **fields))


def parsed_options(command: str, body: Options, *named: str) -> dict[str, Any]:
    """Return the options as the command parses them, with the arguments ``named``. Raises CommandError."""
    arguments: list[str] = []
    for name, value in body.dict(exclude_unset=True).items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif isinstance(value, list):
            arguments += [f"{option}={one}" for one in value]
        elif isinstance(value, str):
            arguments.append(f"{option}={value}")
    return vars(parser_of(command).parse_args([*arguments, "--", *named]))


def run_command(command: str, row: Checkpoint, body: Options, *named: str, key: UUID | None = None) -> Output:
    """Return the output of a command about a checkpoint. Raises CommandError for an invalid option."""
    options = parsed_options(command, body, "-", *named)
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
    if key is None:
        return refused("Idempotency-Key: send a text of your own with each start, such as a UUID.", 422)
    content = json.dumps([request.path_info, body.dict(exclude_unset=True)], sort_keys=True)
    stored = IdempotencyKey.first(request.user, key, content)
    if not stored.is_of(content):
        return refused("Idempotency-Key: this key was sent with another request. Use a new one.", 422)
    if first := answer_started(stored.uid, 200):
        return first
    if stored.is_old:
        # What it has started may have been removed since.
        return refused("Idempotency-Key: this key is more than an hour old. Use a new one.", 409)
    output = run_command(command, row, body, *named, key=stored.uid)
    # Of two calls at once, the second one may have been refused because the first one has started it.
    return answer_started(stored.uid, 201 if not output.status else 200) or answer(output.document, 409)


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
    body_type = options_of(command)

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
ReplayOptions = options_of("replay")


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


NoteOptions = options_of("note")


@route("POST", "/checkpoints/{int:key}/note", name="api-note", right=Right.ANNOTATE, example=NOTED)
def note(
    request: HttpRequest,
    key: Key,
    body: Annotated[NoteOptions, Body()],  # type: ignore[valid-type]
) -> HttpResponse:
    """Change the name, star, labels and note of a checkpoint, its branch or its run, as `forkline note`."""
    return answer(run_command("note", runnable(key), body).document)
