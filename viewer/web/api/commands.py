"""The commands of the terminal: each takes its arguments by their names, and answers with what it prints.

``forkline --server`` sends them (viewer/cli/remote.py). Their documents, texts and refusals are those of the
commands themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.management.base import CommandError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import override
from ninja import Body, Query

from viewer.cli import SUBCOMMANDS
from viewer.cli.output import Outcome, as_json, collected_warnings, json_parts
from viewer.cli.starting import job_outcome
from viewer.models import Right, access_of
from viewer.models.roles import require_level
from viewer.records.audit import Audited, opens
from viewer.validation import one_line
from viewer.web.api.examples import COMMANDS
from viewer.web.api.examples import STARTED as STARTED_JOB
from viewer.web.api.interface import Options, addresses, given_in, options_of, parsed, replied, route
from viewer.web.api.starting import ENTRY_POINT, IdempotencyHeader, refuse_old, stored_key

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
