"""The routes that start, answer and change something, and those of the commands of a terminal elsewhere."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.management.base import CommandError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import override
from ninja import Body, Header, Query, Schema
from ninja.errors import HttpError
from pydantic import ConfigDict, Field

from viewer.cli import SUBCOMMANDS, Outcome, Output, as_json, collected_warnings, json_parts
from viewer.cli.commands.launches import cancelled, given
from viewer.cli.starting import job_outcome
from viewer.models import Checkpoint, IdempotencyKey, Job, Question, Right, Sweep, access_of
from viewer.models.roles import require_level
from viewer.records.audit import Audited, opens
from viewer.validation import MAX_CHARACTERS, one_line
from viewer.web.api.examples import ANSWERED, CANCELLED, COMMANDS, JOB, NOTED, SWEEP
from viewer.web.api.examples import STARTED as STARTED_JOB
from viewer.web.api.interface import Options, addresses, answer, given_in, options_of, parsed, replied, route
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


# Characters of an answer, which takes ten times as many bytes of memory while it is made. With three bytes
# each, ``forkline --server`` still reads it.
MAX_ANSWER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Served:
    """A command that programs may send: the right that it needs, on all locations if ``everywhere``.

    A call with an option of ``by``, or each call if there are none, needs the right ``changes`` and changes
    something. ``without`` are the options that it does not take. ``opens`` is what a call opens that changes
    nothing.
    """

    right: Right = Right.VIEW
    everywhere: bool = False
    changes: Right | None = None
    by: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    opens: Audited = Audited.LOCATION

    def is_change(self, given: Mapping[str, Any]) -> bool:
        """Whether a call with these options changes something, or is refused."""
        is_plan = bool(PLANS & given.keys())
        return self.changes is not None and not is_plan and (not self.by or bool(self.by & given.keys()))


# Options with which nothing is started.
PLANS = {"plan", "ask_next"}
STARTED = Served(Right.RUN, changes=Right.RUN, without=frozenset(ENTRY_POINT))
SERVED: Mapping[str, Served] = {
    **dict.fromkeys(("list", "info", "diff", "call", "search", "export"), Served()),
    **dict.fromkeys(("fork", "resume", "publish", "sweep", "bulk", "replay", "score"), STARTED),
    "run": Served(Right.RUN, changes=Right.RUN),
    "note": Served(changes=Right.ANNOTATE, by=frozenset({"name", "note", "labels", "star", "no_star"})),
    "comments": Served(changes=Right.COMMENT, by=frozenset({"add"})),
    "collection": Served(changes=Right.ANNOTATE, by=frozenset({"add", "item", "remove", "import", "delete"})),
    "answer": Served(changes=Right.ANSWER, by=frozenset({"text"}), opens=Audited.QUESTION),
    "cancel": Served(Right.CANCEL, changes=Right.CANCEL),
    # A person chooses which keys stay, on the page of the project.
    "keys": Served(Right.LOCATIONS, without=frozenset({"keep", "keep_none"})),
    "prune": Served(Right.PRUNE, changes=Right.PRUNE, by=frozenset({"confirm"})),
    "remove": Served(Right.LOCATIONS, changes=Right.LOCATIONS),
    # A link outlives the token, and shows what its maker sees.
    "shares": Served(
        Right.SHARE,
        changes=Right.SHARE,
        by=frozenset({"revoke"}),
        without=frozenset({"make", "run", "days", "unfurl", "dry_run"}),
        opens=Audited.SHARE,
    ),
    "hosts": Served(
        everywhere=True,
        changes=Right.HOSTS,
        by=frozenset({"drain", "resume", "remove"}),
        without=frozenset({"pool", "no_pool"}),
    ),
    "audit": Served(Right.AUDIT, everywhere=True),
    # A token gives nobody a right.
    "roles": Served(
        Right.MEMBERS,
        everywhere=True,
        without=frozenset(
            {
                *("person", "team", "give", "take", "add", "remove", "end_sessions", "delete", "quota"),
                *("location", "remove_second_factors", "deactivate", "activate"),
            }
        ),
        opens=Audited.TEAM,
    ),
    "invitations": Served(
        Right.MEMBERS,
        everywhere=True,
        without=frozenset({"role", "team", "location", "days", "revoke"}),
        opens=Audited.INVITATION,
    ),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request wants to know, and what its command has answered."""

    reply: Literal["document", "lines", "json"]
    waited: bool


def run_served(
    request: HttpRequest, command: str, body: Options, key: str | None, reply: Reply
) -> HttpResponse:
    """Run a command for a program, and return its answer. Raises CommandError."""
    served, given = SERVED[command], given_in(body)
    if served.changes and served.is_change(given):
        require(request, served, served.changes)
    else:
        opens(served.opens, "")
    options = parsed(command, given)
    with collected_warnings() as warnings:
        outcome, is_new = _outcome(request, command, body, options, key, reply.waited)
        return _answered(outcome, warnings, reply, 201 if is_new else 200)


def require(request: HttpRequest, served: Served, right: Right) -> None:
    """Let the request see the rows on which its person has a right. Raises PermissionDenied and Http404."""
    access = access_of(request.user)
    if access.highest < right.level:
        raise PermissionDenied
    if served.everywhere and access.everywhere < right.level:
        raise Http404
    require_level(access, right.level)


def _outcome(
    request: HttpRequest,
    command: str,
    body: Options,
    options: Mapping[str, Any],
    key: str | None,
    waited: bool,
) -> tuple[Outcome, bool]:
    """What a command has to say, and whether it has started something now."""
    subcommand = SUBCOMMANDS[command]
    find_started = subcommand.outcome
    if find_started is None or options.get("plan") or options.get("ask_next"):
        output = subcommand.handle({**options, "wait": False, "json": False})
        return Outcome(output, output.jobs), False
    stored = stored_key(request, body, key)
    if found := find_started(stored.uid, waited):
        return found, False
    refuse_old(stored)
    output = subcommand.handle({**options, "wait": False, "json": False, "key": stored.uid})
    found = find_started(stored.uid, waited)
    if found is None:
        return Outcome(output, []), False
    # Of two calls at once, the second one may have been refused because the first one has started it.
    is_refused = bool(output.status) and not output.document.get("group")
    return Outcome(found.output if is_refused else output, found.unfinished), not is_refused


def _answered(outcome: Outcome, warnings: list[str], reply: Reply, status: int) -> HttpResponse:
    output = outcome.output
    if reply.reply == "document":
        is_refused = bool(output.status) and bool(output.document.get("error"))
        text = limited(json_parts(output.document))
        return replied(text, 409 if is_refused else status, output.status)
    limited([output.file])
    parts: dict[str, Any] = {
        "status": output.status,
        "warnings": warnings,
        "unfinished": list(map(str, outcome.unfinished)),
        "file": output.file or None,
        "file_name": output.file_name,
    }
    if reply.reply == "json":
        # A file is not sent twice.
        shown = {name: value for name, value in output.document.items() if name != "text" or not output.file}
        text = limited(json_parts(shown))
        return replied(f'{as_json(parts)[:-1]}, "document": {text}}}', status, output.status)
    lines = limited(f"{one_line(line)}\n" for line in output.lines).split("\n")[:-1]
    return replied(as_json({**parts, "lines": lines}), status, output.status)


def limited(parts: Iterable[str]) -> str:
    """The parts as one text. Raises CommandError for one that is too long for an answer."""
    found, size = list[str](), 0
    for part in parts:
        found.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            raise CommandError("The answer is too long. Ask for less, such as one run of a location.")
    return "".join(found)


ReplyQuery = Annotated[
    Literal["document", "lines", "json"],
    Query(
        description="The document alone, or with the exit status the document, or the lines of a terminal."
    ),
]
WaitedQuery = Annotated[
    bool, Query(description="Answer as `--wait` does once the jobs have ended or ask. Does not wait.")
]


@route("GET", "/jobs/{uuid:uid}/outcome", name="api-job-outcome", right=Right.VIEW, example=STARTED_JOB)
def job_result(request: HttpRequest, uid: UUID, reply: ReplyQuery = "document") -> HttpResponse:
    """Return the outcome of a job as `forkline answer --wait` prints it, once it has ended or asks."""
    found = job_outcome(uid, True)
    if found is None:
        raise Http404
    return _answered(found, [], Reply(reply, waited=True), 200)


def command_route(command: str, served: Served) -> None:
    """Declare the route of a command."""
    examples = COMMANDS[command]
    body_type = options_of(f"{command.capitalize()}Command", command, served.without, examples[0])

    def call(request, body, idempotency_key=None, reply="document", waited=False):  # type: ignore[no-untyped-def]
        return run_served(request, command, body, idempotency_key, Reply(reply, waited))

    # django-ninja reads the types of the parameters.
    call.__annotations__ = {
        **{"request": HttpRequest, "body": Annotated[body_type, cast(Any, Body)()]},
        **{"idempotency_key": IdempotencyHeader, "reply": ReplyQuery, "waited": WaitedQuery},
        "return": HttpResponse,
    }
    with override("en"):
        call.__doc__ = f"{SUBCOMMANDS[command].help} As `forkline {command}`."
    call.__name__ = f"command_{command}"
    answers = {200: "What the command answers."}
    if SUBCOMMANDS[command].outcome:
        answers[201] = "What the command answers once it has started something."
    route(
        "POST",
        f"/commands/{command}",
        name=f"api-command-{command}",
        right=served.right,
        everywhere=served.everywhere,
        example=examples[1],
        answers=answers,
    )(call)


for _command, _served in SERVED.items():
    command_route(_command, _served)
# Those of all modules: starting imports reading.
urlpatterns = addresses()
