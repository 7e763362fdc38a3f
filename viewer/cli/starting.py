"""Starts a fork or resume from the terminal, and reports its outcome or why it was refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from django.core.management.base import CommandError, CommandParser
from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli import Outcome, Output, lines_of, running
from viewer.cli.finding import add_checkpoint_argument, add_project_arguments, project_for, source_of
from viewer.cli.options import add_options, answers_in, choices_of, edits_of, request_values, tools_of
from viewer.cli.rows import checkpoint_document
from viewer.engines import engine_of
from viewer.engines.plan import Step, plain_steps, steps_in
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.runner_protocol import Report
from viewer.launching.calls import tool_document, tool_lines, tool_views
from viewer.launching.labels import loss_label, step_text
from viewer.launching.options import (
    ACCEPTANCE,
    CHECKPOINTS,
    CODE,
    EDITS,
    PRESENT,
    RECORDED,
    SCHEDULE,
    SETTINGS,
    TOOLS,
)
from viewer.launching.preview import LaunchPreview, ask_next, code_changes, in_project, preview_launch
from viewer.launching.refusals import Code, LaunchRefused, Refusal, copy_refusals, messages_of
from viewer.launching.requests import ACCEPT_ALL, ForkRequest
from viewer.launching.start import EffectsRefused, start
from viewer.messages.translation import translate
from viewer.models import AcceptedEffect, Checkpoint, Job, Location, Question
from viewer.presentation.hosts import asked_for
from viewer.presentation.jobs.status import hint, limit_label, status_label, warnings_of
from viewer.records.bodies import stored_contents
from viewer.records.isolation import isolation_of

# Refusals as the terminal prints them, with the arguments that resolve them.


HINTS: dict[Code, str | Promise] = {
    Code.REDACTED_PARTS: gettext_lazy(
        "Edit them with --input, --output or --state, or send them as they are with --accept-hidden."
    ),
    Code.INPUTS: gettext_lazy("Pass it with --input NAME=JSON."),
    Code.ENTRY_POINT: gettext_lazy(
        "Name the project's folder with --project, and what runs with --graph or --entrypoint."
    ),
    Code.CODE: gettext_lazy("Accept it with --accept-code."),
    Code.HOST: gettext_lazy("Queue it with --queue."),
    Code.PROJECT: gettext_lazy("Name another project with --project, or its interpreter with --python."),
    Code.EFFECTS: gettext_lazy(
        "Accept them with --accept-effects, or name the project's own code with --entrypoint."
    ),
}


def refusal_lines(refused: LaunchRefused) -> list[str]:
    """Each message, the effects if these were refused, and hints."""
    messages = messages_of(refused.refusals)
    kinds = dict(AcceptedEffect.Kind.choices)
    if isinstance(refused, EffectsRefused):
        messages += [
            f"  {kinds.get(one['kind'], one['kind'])}: {one['name']} ({one['detail']})"
            for one in refused.effects
        ]
        messages.insert(0, _("Nothing has been started."))
    return [*messages, *hints_of(refused.refusals)]


def hints_of(refusals: Sequence[Refusal]) -> list[str]:
    """The arguments that resolve these refusals, each once."""
    return list(dict.fromkeys(str(HINTS[one.code]) for one in refusals if one.code in HINTS))


def effects_in(refused: LaunchRefused) -> list[dict[str, str]]:
    """The refused effects for ``--json``; empty if it was refused for another reason."""
    if not isinstance(refused, EffectsRefused):
        return []
    names = ("kind", "name", "detail", "digest", "tool", "field")
    return [{name: str(one.get(name) or "") for name in names} for one in refused.effects]


# Starts a fork or resume from the terminal, and reports its outcome.


R = TypeVar("R", bound=ForkRequest)
# The status of a job that waits for an answer, and the exit status of a command that waited for it.
WAITING, WAITS_STATUS = "waiting", 3
# The value of ``wait`` if events are printed as well.
FOLLOWS = "events"
# Refusals that are reported before a project is confirmed.
EARLY = {Code.PLAN, Code.BRANCH}


def add_run_arguments(parser: CommandParser) -> None:
    """Add what ``fork`` and ``resume`` have in common."""
    add_checkpoint_argument(parser)
    add_launch_arguments(parser)


def add_launch_arguments(parser: CommandParser) -> None:
    """Add the options of a fork or resume."""
    add_options(parser, *EDITS, *SETTINGS)
    add_options(parser, *CHECKPOINTS)
    add_project_arguments(parser)
    add_options(parser, CODE, *TOOLS, *ACCEPTANCE, *SCHEDULE)
    parser.add_argument("--plan", action="store_true", help=_("Show the plan without starting anything."))
    add_wait_argument(parser)


def add_wait_argument(parser: CommandParser) -> None:
    """Add ``--wait`` and ``--follow``. The value of ``wait`` is false, true or FOLLOWS."""
    waits = parser.add_mutually_exclusive_group()
    waits.add_argument(
        "--wait",
        action="store_true",
        help=_(
            "Wait until it ends. Run it here if no worker is running. If it asks and stdin is no terminal, "
            "print the question and exit with status 3."
        ),
    )
    waits.add_argument(
        "--follow",
        action="store_const",
        const=FOLLOWS,
        dest="wait",
        help=_("Wait, and print what the run does on stderr while it runs."),
    )


def contents_to_run(checkpoint: Checkpoint) -> Contents:
    """What the checkpoint holds. Raises CommandError if its stored copy was deleted."""
    if refusals := copy_refusals(checkpoint):
        raise CommandError(" ".join(messages_of(refusals)))
    return stored_contents(checkpoint)


def request_from(
    type_: type[R],
    checkpoint: Checkpoint,
    branch: str,
    options: Mapping[str, Any],
    on: Location | None = None,
) -> R:
    """The request, without a project unless it runs ``on`` another host.

    Raises CommandError for invalid arguments.
    """
    contents = contents_to_run(checkpoint)
    values = checkpoint_values(on or checkpoint.location, checkpoint, contents, options)
    if on:
        accepted = replace(values["accepted"], code=ACCEPT_ALL if options["accept_code"] else "")
        values |= {"project": on.project, "on": on, "accepted": accepted}
    return type_(
        **values,
        **choices_of(options, contents),
        branch=branch,
        edits=edits_of(options, contents),
        uses_recorded_code=options["code"] == RECORDED,
    )


def checkpoint_values(
    location: Location, checkpoint: Checkpoint, contents: Contents, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of every request that runs a checkpoint at a location, without a project.

    Raises CommandError.
    """
    folder, entry_point = source_of(location, contents, options)
    return {
        "checkpoint": checkpoint,
        "contents": contents,
        "project": None,
        "folder": folder,
        "entry_point": entry_point,
        "answers": answers_in(options, contents),
        **tools_of(options),
        **request_values(options),
    }


def started(request: ForkRequest, options: Mapping[str, Any]) -> Output:
    """The job, and its outcome if it was waited for. Raises CommandError for invalid arguments."""
    preview = preview_launch(request)
    steps = preview.plan.steps
    early = [one for one in preview.refusals if one.code in EARLY]
    if early:
        return refusal(request.branch, steps, LaunchRefused(early))
    if options["plan"]:
        return _planned(preview)
    if preview.request.project is None:
        preview = in_project(preview, project_for(request.checkpoint.location, options))
    try:
        job = start(preview)
    except LaunchRefused as refused:
        return refusal(request.branch, steps, refused)
    return outcome_of(job, steps, options["wait"])


def next_units_of(request: ForkRequest, options: Mapping[str, Any]) -> Output:
    """What would run next for each unit that the edits can be attributed to. Raises CommandError."""
    project = project_for(request.checkpoint.location, options)
    next_units = ask_next(replace(request, project=project))
    refused = " ".join([next_units.refused, *hints_of(next_units.refusals)]).strip()
    document = {
        "error": refused,
        "next": [
            {"node": one.unit, "next": list(one.following), "after": dict(one.after), "error": one.error}
            for one in next_units.units
        ],
    }
    lines = [f"{one.unit or '-'}: {one.error or ', '.join(one.following) or '-'}" for one in next_units.units]
    lines += [f"{name} = {text}" for name, text in next_units.after.items()]
    return Output(document, [*lines, refused or _("Nothing has been started.")], status=int(bool(refused)))


def outcome_of(job: Job, steps: Sequence[Step], waits: bool | str) -> Output:
    """The job now, or if ``waits`` once it has ended, or asks what nobody can answer at this terminal."""
    if waits:
        _wait(job, prints_events=waits == FOLLOWS)
    return _answer(job, steps, running.waiting_questions(job) if waits else [])


def job_outcome(
    key: UUID, waits: bool, more: Callable[[Job, Output], Output] = lambda _job, output: output
) -> Outcome | None:
    """The present outcome of the job with this id, or that was started with this key; None for none."""
    rows = Job.objects.select_related("location", "run", "requested_by")
    job = rows.filter(Q(idempotency_key=key) | Q(pk=key)).first()
    if job is None:
        return None
    output = _answer(job, steps_in(job.plan), running.waiting_questions(job) if waits else [])
    return Outcome(more(job, output), [] if running.is_over(job) else [job.pk])


def _wait(job: Job, *, prints_events: bool) -> None:
    """Wait until it has ended or asks. Ctrl-C cancels it, and its status says so."""
    try:
        with running.questions_asked(job, prints_events=prints_events) as nobody_answers:
            running.run_here(job, nobody_answers)
    except KeyboardInterrupt:
        pass
    finally:
        job.refresh_from_db()


def _planned(preview: LaunchPreview) -> Output:
    steps, plan = preview.plan.steps, preview.plan
    contents = preview.request.contents
    known = [step_text(step) for step in steps] or [_(kind_of(engine_of(contents), contents.kind).no_steps)]
    # The request has no project yet: only a start confirms one.
    request = replace(preview.request, project=preview.request.location.project)
    views = tool_views(preview.recorded, request)
    tools = [line for view in views for line in tool_lines(view)]
    tools += filter(None, [preview.model_note])
    code = code_changes(request.checkpoint, request.project)
    changes = []
    if code:
        note = code.commit_note if request.uses_recorded_code else ""
        changes = [code.sentence, note, *(f"  {file.name} ({file.change})" for file in code.shown)]
    asked = list(asked_for(request.project))
    lines = [*known, *plan.then, *tools, *changes, *asked, "", _("Nothing has been started.")]
    document = _document("planned", preview.request.branch, steps)
    if asked and request.project:
        isolation = isolation_of(request.project.isolation)
        document["isolation"] = {
            "launcher": isolation.launcher,
            "network": isolation.network,
            "hosts": list(isolation.allow),
            "limits": isolation.limits,
        }
    document["tools"] = [tool_document(view) for view in views]
    document["code"] = code and {
        "commit": code.code.commit,
        "is_dirty": code.code.is_dirty,
        "runs": RECORDED if request.uses_recorded_code else PRESENT,
        "changes": [{"name": file.name, "change": file.change} for file in code.files],
    }
    document["then"] = [asdict(decision) for decision in plan.decisions]
    return Output(document, lines)


def refusal(branch: str, steps: Sequence[Step], refused: LaunchRefused) -> Output:
    """The output if nothing was started."""
    document = _document("refused", branch, steps, error=str(refused))
    document["hints"] = hints_of(refused.refusals)
    return Output({**document, "effects": effects_in(refused)}, refusal_lines(refused), status=1)


def _document(status: str, branch: str, steps: Sequence[Step], error: str = "") -> dict[str, Any]:
    """The JSON of output without a job."""
    return {
        "job": None,
        "status": status,
        "branch": branch,
        "checkpoints": [],
        "result": "",
        "error": error,
        "warnings": [],
        "checkpoints_failed": 0,
        "plan": plain_steps(steps),
        "preflight": None,
        "effects": [],
        "start_at": None,
        "limits": {},
        "limit_hit": "",
        "isolation": {},
        "questions": [],
        "hints": [],
    }


def job_document(job: Job, steps: Sequence[Step], asked: Sequence[Question]) -> dict[str, Any]:
    """A job, with the plan that was shown and the questions that wait for an answer."""
    written = job.events.filter(kind="checkpoint").order_by("seq").values_list("data__id", flat=True)
    # A run may have written anything.
    ids = [one for one in written if isinstance(one, str)]
    found = Checkpoint.objects.filter(location=job.location, checkpoint_id__in=ids)
    # A published fork has the same ids in two runs: its own comes last, and is found.
    own_last = sorted(
        found.select_related("location", "run", "parent"), key=lambda row: row.run_id == job.run_id
    )
    rows = {row.checkpoint_id: row for row in own_last}
    return {
        **_document(WAITING if asked else job.status, job.branch, steps, error=translate(job.error)),
        "job": str(job.pk),
        "checkpoints": [checkpoint_document(rows[one]) for one in ids if one in rows],
        "result": job.result,
        "warnings": warnings_of(job),
        "checkpoints_failed": job.events.filter(kind="checkpoint_failed").count(),
        "preflight": report_of(job),
        "start_at": job.start_at.astimezone(UTC).isoformat() if job.start_at else None,
        "limits": job.limits,
        "limit_hit": limit_label(job),
        "isolation": job.isolation,
        "questions": list(map(running.pending_document, asked)),
    }


def _answer(job: Job, steps: Sequence[Step], asked: Sequence[Question]) -> Output:
    document = job_document(job, steps, asked)
    report = document["preflight"]
    engine = engine_of(job.location)
    losses = [part for part in engine.components_in(report or {}) if part.fate == "lost"]
    lines = [
        *(step_text(step) for step in steps),
        *(_("Lost: %s") % loss_label(engine.preflight_labels, part) for part in losses),
        "",
        f"{_('waiting for an answer') if asked else status_label(job)}: {job.branch} ({job.pk})",
        *([hint(job)] if job.is_stopped or not (job.has_ended or asked) else []),
        *(_("Warning: %(warning)s") % {"warning": warning} for warning in warnings_of(job)),
    ]
    for ending in (translate(job.error), job.result):
        lines += lines_of(ending.rstrip()) if ending.strip() else []
    lines += running.waiting_lines(asked)
    return Output(document, lines, status=WAITS_STATUS if asked else 0 if is_well(job) else 1)


def report_of(job: Job) -> dict[str, Any] | None:
    """The findings of the runner's own preflight check; None if there are none, or if they are malformed."""
    event = job.events.filter(kind="preflight").first()
    report: Any = event.data.get("report") if event else None
    try:
        # The project's code may have changed it.
        msgspec.convert(report, Report)
    except msgspec.ValidationError:
        return None
    return dict(report)


def is_well(job: Job) -> bool:
    """Whether it has not ended yet, or succeeded and wrote all of its checkpoints."""
    return not job.has_ended or (job.status == Job.Status.SUCCEEDED and not job.is_incomplete)
