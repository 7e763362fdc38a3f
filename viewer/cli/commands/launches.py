"""``forkline fork``, ``resume``, ``run``, ``publish``, ``score``, ``answer`` and ``cancel``: one job."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import JOB, NUMBER_FROM_ONE, TARGET, TYPED_TEXT, Output, Subcommand, finding, starting
from viewer.cli.arguments import typed_text
from viewer.cli.finding import add_project_arguments, named_entry_point, project_for
from viewer.cli.options import (
    add_options,
    inputs_of,
    new_choices_of,
    parsed,
    request_values,
    sender_of,
    state_of,
)
from viewer.cli.running import question_document, run_here
from viewer.engines import all_engines, engine_of, kinds_that
from viewer.engines.answer_schema import AnswerInvalid
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import Engine, kind_of
from viewer.formats import count_text
from viewer.host_requests import ListEntryPointKinds, ListNamedEntryPoints, ask
from viewer.launching import requests
from viewer.launching.new_run import new_run, preview_new_run
from viewer.launching.options import (
    ACCEPT_CODE,
    ACCEPT_LOSSES,
    BRANCH,
    CACHE_WARMUP,
    CHECKPOINTS,
    INPUTS,
    INTO,
    MODEL,
    NEW_THREAD_NAME,
    ON,
    PUBLISH_INTO,
    QUEUE,
    SCHEDULE,
    SETTINGS,
    THREAD,
    parse_fork_target,
)
from viewer.launching.preview import other_locations
from viewer.launching.refusals import Code, LaunchRefused, messages_of
from viewer.launching.start import (
    PublishPreview,
    preview_publish,
    publish,
    redacted_answer,
    request_cancel,
    send_answer,
)
from viewer.launching.sweep import score
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Location, Project, Question
from viewer.presentation.comparison_sides import score_in
from viewer.presentation.jobs.status import status_label
from viewer.records.audit import is_at_terminal, present_actor
from viewer.records.runner_requests import FIRST_BRANCH
from viewer.stores import SAVER_PREFIX, is_uri, name_in
from viewer.validation import CODE_NAME

# ``manage.py checkpoints fork``.


def _add_fork_arguments(parser: CommandParser) -> None:
    starting.add_run_arguments(parser)
    add_options(parser, MODEL)
    add_options(parser, CACHE_WARMUP)
    parser.add_argument(
        "--ask-next",
        action="store_true",
        help=str(
            gettext_lazy("LangGraph: show what would run next for each --as-node, without starting anything.")
        ),
    )
    add_options(parser, BRANCH, INTO, ON, ACCEPT_CODE)


def _handle_fork(options: Mapping[str, Any]) -> Output:
    checkpoint = finding.checkpoint_at(options["checkpoint"])
    on = _other_location(checkpoint, options) if options["on"] else None
    request = starting.request_from(requests.ForkRequest, checkpoint, options["branch"] or "", options, on)
    if not request.branch:
        request = replace(request, branch=requests.fork_branch(request))
    if options["ask_next"]:
        return starting.next_units_of(request, options)
    into = parsed("--into", partial(parse_fork_target, kind=request.root_kind), options["into"])
    request = replace(request, into=into)
    return starting.started(request, options)


def _other_location(checkpoint: Checkpoint, options: Mapping[str, Any]) -> Location:
    """The location of another host that ``--on`` names. Raises CommandError."""
    known = other_locations(checkpoint)
    found = next((one for one in known if options["on"] == f"{one.host.name}:{one.path}"), None)
    if found is None:
        message = _("It can be forked at these locations of other hosts: %s")
        raise CommandError(message % (", ".join(f"{one.host.name}:{one.path}" for one in known) or "-"))
    if any(options[name] for name in ("project", "python", "env_file")):
        raise CommandError(_("--on runs in the project of that location. Name no other one."))
    return found


FORK = Subcommand(
    gettext_lazy("Continue from a checkpoint on a new branch, with your edits."),
    _add_fork_arguments,
    _handle_fork,
    outcome=starting.job_outcome,
)


# ``manage.py checkpoints resume``.


def _handle_resume(options: Mapping[str, Any]) -> Output:
    checkpoint = finding.checkpoint_at(options["checkpoint"])
    request = starting.request_from(requests.ResumeRequest, checkpoint, checkpoint.recorded_branch, options)
    return starting.started(request, options)


RESUME = Subcommand(
    gettext_lazy("Continue from a checkpoint on its own branch."),
    starting.add_run_arguments,
    _handle_resume,
    outcome=starting.job_outcome,
)


# ``manage.py checkpoints run``.


def _add_run_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location",
        type=TARGET,
        metavar="LOCATION",
        help=_("A folder, or a file that ends with .db for SQLite; created if it does not exist."),
    )
    add_options(parser, *INPUTS, THREAD, *SETTINGS, MODEL, CACHE_WARMUP, *CHECKPOINTS, *SCHEDULE)
    add_project_arguments(parser)
    add_options(parser, ACCEPT_LOSSES)
    starting.add_wait_argument(parser)


def _handle_run(options: Mapping[str, Any]) -> Output:
    """The job, and its outcome if it was waited for. Raises CommandError for invalid arguments."""
    named = options["location"]
    if is_uri(named):
        raise CommandError(_("Name a database as postgresql:NAME, after its name in the settings."))
    if named.startswith(SAVER_PREFIX):
        raise CommandError(translate(UserMessage("saver.no_runs")))
    # Only a person at a terminal of this machine names a new location.
    other = finding.location_elsewhere(named) if is_at_terminal() else finding.known_location(named)
    path = named if other or name_in(named) else str(finding.typed_path(named).expanduser().absolute())
    known: Location | None
    if other or name_in(named):
        known = other or finding.imported_location(named)
    else:
        known = (
            Location.objects.here().select_related("project").filter(path=str(Path(path).resolve())).first()
        )
    # Invalid options are refused before a project is stored.
    values = request_values(options)
    project = project_for(known or Location(path=path), options)
    engine = engine_of(known) if known else _run_engine_for(Path(project.folder), options)
    entry_point, entity = _run_entry_point(engine, project, options)
    kind = kind_of(engine, entity)
    request = requests.NewRunRequest(
        **values,
        **new_choices_of(options, kind),
        project=project,
        entry_point=entry_point,
        kind=kind,
        name=engine.entry_point_title(entry_point),
        inputs=_run_inputs(kind, options),
        target=known if known and (other or not known.is_local) else path,
        thread=options["thread"] or "",
    )
    try:
        job = new_run(preview_new_run(request))
    except LaunchRefused as refused:
        return starting.refusal(FIRST_BRANCH, [], refused)
    return starting.outcome_of(job, [], options["wait"])


def _run_engine_for(folder: Path, options: Mapping[str, Any]) -> Engine[Any]:
    """The engine of a new location: the one whose configuration names the graph, else the default one."""
    names = (
        one for one in all_engines() if options["graph"] in ask(ListNamedEntryPoints(one.name, str(folder)))
    )
    return next(names, engine_of(None))


def _run_entry_point(engine: Engine[Any], project: Project, options: Mapping[str, Any]) -> tuple[str, str]:
    """The named entry point, else the project's only one, and its kind."""
    named = named_entry_point(engine, Path(project.folder), options, project.host_id)
    if named and not is_at_terminal() and named not in project.entry_points:
        raise CommandError(_("The project has no entry point %s.") % named)
    points = [named] if named else project.entry_points
    kinds = ask(ListEntryPointKinds(engine.name, project.folder, points), host=project.host_id)
    # Their kinds are not known while the project's host is away.
    kinds = kinds or dict.fromkeys(points, "")
    fitting = [name for name, kind in kinds.items() if named or options["kind"] in (None, kind)]
    if len(fitting) != 1:
        raise CommandError(
            _("Choose what to run with --entrypoint. The project's entry points: %s")
            % (", ".join(f"{name} ({kind})" if kind else name for name, kind in kinds.items()) or "-")
        )
    kind = options["kind"] or kinds[fitting[0]]
    if not kind:
        raise CommandError(_("Its source does not say what %s is: name it with --kind.") % fitting[0])
    return fitting[0], kind


def _run_inputs(kind: RootKind, options: Mapping[str, Any]) -> dict[str, Any]:
    inputs = inputs_of(options)
    if options["state"] is not None:
        if not kind.has_state:
            having = ", ".join(_(one.label) for one in kinds_that(lambda one: one.has_state))
            raise CommandError(
                _("Only these have a state: %(kinds)s. Pass inputs instead.") % {"kinds": having}
            )
        inputs = {**state_of(options["state"]), **inputs}
    if kind.prompt and not set(inputs) <= {kind.prompt}:
        message = _("A standalone %(kind)s has one input, its prompt: --input '%(prompt)s=\"…\"'.")
        raise CommandError(message % {"kind": _(kind.label), "prompt": kind.prompt})
    return inputs


RUN = Subcommand(
    gettext_lazy("Run a project's entry point from its start, and write its checkpoints here."),
    _add_run_arguments,
    _handle_run,
    outcome=starting.job_outcome,
)


# ``manage.py checkpoints publish``.


def _add_publish_arguments(parser: CommandParser) -> None:
    finding.add_checkpoint_argument(parser, _("A checkpoint that the fork wrote."))
    add_options(parser, PUBLISH_INTO, NEW_THREAD_NAME, QUEUE)
    parser.add_argument("--plan", action="store_true", help=_("Show what would be written without writing."))
    starting.add_wait_argument(parser)
    add_project_arguments(parser)


def _handle_publish(options: Mapping[str, Any]) -> Output:
    checkpoint = finding.checkpoint_at(options["checkpoint"])
    if not checkpoint.is_scratch:
        raise CommandError(_("Only a draft, which is a fork in Forkline only, can be published."))
    # Only a start confirms a project.
    is_plan, location = options["plan"], checkpoint.location
    request = requests.PublishRequest(
        checkpoint=checkpoint,
        into=options["into"],
        project=location.project if is_plan else project_for(location, options),
        thread=options["thread"] or "",
        options=requests.LaunchOptions(waits_for_host=options["queue"]),
        **sender_of(options),
    )
    preview = preview_publish(request)
    if is_plan:
        return _publish_planned(preview)
    try:
        job = publish(preview)
    except LaunchRefused as refused:
        return starting.refusal(checkpoint.recorded_branch, [], refused)
    return starting.outcome_of(job, [], options["wait"])


def _publish_planned(preview: PublishPreview) -> Output:
    path = preview.request.checkpoint.location.path
    words = ngettext(
        "%(count)s checkpoint is written to %(run)s in %(location)s.",
        "%(count)s checkpoints are written to %(run)s in %(location)s.",
        preview.count,
    )
    lines = [words % {"count": count_text(preview.count), "run": preview.key, "location": path}]
    if preview.request.into == "thread":
        lines.append(_(preview.kind.moves_head))
    checks = [one for one in preview.checks if one.code not in (Code.PROJECT, Code.HOST)]
    lines += messages_of(checks)
    document = {
        "status": "refused" if checks else "planned",
        "location": path,
        "run": preview.key,
        "checkpoints": preview.count,
        "error": " ".join(messages_of(checks)),
    }
    return Output(document, [*lines, _("Nothing has been written.")], status=int(bool(checks)))


PUBLISH = Subcommand(
    gettext_lazy("Write a draft, which is a fork in Forkline only, to its location."),
    _add_publish_arguments,
    _handle_publish,
    outcome=starting.job_outcome,
)


# ``manage.py checkpoints score``.


def _add_score_arguments(parser: CommandParser) -> None:
    finding.add_checkpoint_argument(parser)
    parser.add_argument(
        "function", type=CODE_NAME, metavar="module:function", help=_("A function of the project.")
    )
    starting.add_wait_argument(parser)
    add_project_arguments(parser)


def _handle_score(options: Mapping[str, Any]) -> Output:
    """The job, and its score if it was waited for. Raises CommandError."""
    checkpoint = finding.checkpoint_at(options["checkpoint"])
    project = project_for(checkpoint.location, options)
    try:
        job = score(checkpoint, options["function"], project, **sender_of(options))
    except LaunchRefused as refused:
        found = starting.refusal(checkpoint.branch, [], refused)
        return Output({**found.document, "score": None}, found.lines, found.status)
    return _with_score(job, starting.outcome_of(job, [], options["wait"]))


def _with_score(job: Job, found: Output) -> Output:
    score = score_in(job) if job.status == Job.Status.SUCCEEDED else None
    return Output({**found.document, "score": score}, found.lines, found.status)


SCORE = Subcommand(
    gettext_lazy("Call a function of the project with a checkpoint's contents, and store what it returns."),
    _add_score_arguments,
    _handle_score,
    outcome=partial(starting.job_outcome, more=_with_score),
)


# ``manage.py checkpoints answer``: lists pending questions, or answers one.


def _add_answer_arguments(parser: CommandParser) -> None:
    parser.add_argument("job", type=JOB, nargs="?", metavar="JOB", help=_("A job's id, or its beginning."))
    parser.add_argument(
        "number",
        nargs="?",
        type=NUMBER_FROM_ONE,
        metavar="NUMBER",
        help=_("The number of the question, if several are pending."),
    )
    starting.add_wait_argument(parser)
    parser.add_argument(
        "--text", type=TYPED_TEXT, help=_("The answer. Empty accepts the output; - reads stdin.")
    )


def _handle_answer(options: Mapping[str, Any]) -> Output:
    waiting = Question.objects.waiting().select_related("job").order_by("asked_at", "pk")
    if options["job"] is None:
        return listed(list(waiting))
    found = [one for one in waiting if str(one.job_id).startswith(options["job"])]
    if options["number"] is not None:
        found = [one for one in found if one.number == options["number"]]
    if not found:
        raise CommandError(_("There is no such pending question."))
    if options["text"] is None:
        return listed(found)
    if len(found) > 1:
        several = ", ".join(f"{one.job_id} {one.number}" for one in found)
        raise CommandError(
            _("Several questions are pending: %(several)s. Name one of them.") % {"several": several}
        )
    output = given(found[0], typed_text(options["text"]))
    if not options["wait"] or output.status:
        return output
    outcome = starting.outcome_of(found[0].job, [], options["wait"])
    return Output({**output.document, **outcome.document}, [*output.lines, *outcome.lines], outcome.status)


def given(question: Question, text: str) -> Output:
    """Whether the answer was used; the first answer wins. Raises CommandError if it does not fit."""
    try:
        is_first = send_answer(question, text.strip(), present_actor().user)
    except AnswerInvalid as invalid:
        raise CommandError(translate(invalid)) from invalid
    outcome = _("Answered. The run continues.") if is_first else _("The question was already answered.")
    document = {
        **question_document(question),
        "answered": is_first,
        "answer": redacted_answer(question),
    }
    return Output(document, [outcome], 0 if is_first else 1, jobs=[question.job_id] if is_first else [])


def listed(waiting: list[Question]) -> Output:
    """The pending questions, the oldest first."""
    lines = [f"{one.job_id} {one.number}  {' '.join(one.prompt.split())}" for one in waiting]
    document = {"questions": [question_document(one) for one in waiting]}
    return Output(document, lines or [_("No pending questions.")])


ANSWER = Subcommand(
    gettext_lazy("Answer a run's question. Without a job, list the pending questions."),
    _add_answer_arguments,
    _handle_answer,
)


# ``manage.py checkpoints cancel``.


# Jobs that a message names.
MAX_NAMED = 5


def _add_cancel_arguments(parser: CommandParser) -> None:
    parser.add_argument("job", type=JOB, metavar="JOB", help=_("A job's id, or its beginning."))
    parser.add_argument("--wait", action="store_true", help=_("Wait until its processes have ended."))


def _handle_cancel(options: Mapping[str, Any]) -> Output:
    """The job, and whether this cancelled it. Raises CommandError if no job, or several, are named."""
    return cancelled(job_named(options["job"]), waits=options["wait"])


def cancelled(job: Job, *, waits: bool = False) -> Output:
    """The job, and whether this cancelled it."""
    is_cancelled = request_cancel(job)
    if waits and not job.has_ended:
        # It has been started: without a worker, this process follows it to its end.
        run_here(job)
    if is_cancelled:
        line = _("Cancelled.") if job.has_ended else _("Cancelling: its processes are being stopped.")
    elif job.has_ended:
        line = _("Nothing to cancel: the job has ended (%(status)s).") % {"status": status_label(job)}
    else:
        line = _("The job is already being cancelled.")
    document = {"job": str(job.pk), "status": job.status, "cancelled": is_cancelled}
    return Output(document, [f"{job.branch} ({job.pk}): {line}"], status=int(not is_cancelled))


def job_named(text: str) -> Job:
    """The only job whose id begins with this text. Raises CommandError."""
    found = Job.objects.select_related("location").begins_with(text)
    jobs = list(found.order_by("-created_at")[: MAX_NAMED + 1])
    if not jobs:
        raise CommandError(_("There is no job %s.") % text)
    if len(jobs) > 1:
        several = ", ".join(str(job.pk) for job in jobs[:MAX_NAMED])
        raise CommandError(
            _("Several jobs begin with %(text)s: %(several)s. Enter a complete id.")
            % {"text": text, "several": several}
        )
    return jobs[0]


CANCEL = Subcommand(
    gettext_lazy("Cancel a job. One that waits never starts; one that runs is stopped with its processes."),
    _add_cancel_arguments,
    _handle_cancel,
)
