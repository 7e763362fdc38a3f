"""``forkline call`` and ``replay``: the model calls of a checkpoint, and one that is made again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import Outcome, Output, Subcommand
from viewer.cli.arguments import read_text
from viewer.cli.commands.sweeps import group_outcome, mean_lines, wait_for
from viewer.cli.finding import (
    UNNAMED,
    add_checkpoint_argument,
    add_project_arguments,
    checkpoint_at,
    existing_collection,
    project_for,
    source_of,
)
from viewer.cli.options import add_options, launch_options_of, message_edits, parsed, sender_of
from viewer.cli.starting import add_wait_argument, contents_to_run, is_well, job_outcome, outcome_of, refusal
from viewer.engines.recorded_calls import CallMessage, RecordedCall, call_document, message_document
from viewer.formats import count_text, duration, money
from viewer.host_requests import NotReadable
from viewer.launching.edits import parse_json
from viewer.launching.options import (
    PARAMETERS,
    REPLAY_MODELS,
    REPLAY_OPTIONS,
    REPLAY_TOOLS,
    SCHEDULE,
    SCORE,
    Option,
)
from viewer.launching.refusals import Code, LaunchRefused, messages_of
from viewer.launching.replay import (
    CallMember,
    CallsReplayPreview,
    CallsReplayRequest,
    ReplayPreview,
    call_messages,
    call_parameters,
    call_tools,
    calls_of_branch,
    calls_of_collection,
    calls_sentence,
    edited_call_messages,
    preview_calls_replay,
    preview_replay,
    replay,
    replay_calls,
)
from viewer.launching.requests import ReplayRequest
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Sweep
from viewer.presentation import sweeps
from viewer.presentation.calls import CallView, ReplayedAnswer, call_views, new_answers, recorded_calls_of
from viewer.presentation.comparison_sides import score_of
from viewer.presentation.jobs.status import status_label
from viewer.records.audit import Action, Audited, record
from viewer.validation import NAME

# Characters of an answer in the list.
MAX_SHOWN = 70


def _add_arguments(parser: CommandParser) -> None:
    add_checkpoint_argument(parser)
    parser.add_argument(
        "call",
        type=NAME,
        nargs="?",
        metavar="CALL",
        help=_("The name of a call. Without it, all are listed."),
    )


def _handle(options: Mapping[str, Any]) -> Output:
    """The redacted calls, after an import of the location. Raises CommandError."""
    checkpoint = checkpoint_at(options["checkpoint"])
    record(Action.OPENED, Audited.CALL, checkpoint.pk)
    views = _views(checkpoint)
    if not options["call"]:
        return Output({"calls": [_document(view) for view in views]}, list(_list_lines(views)))
    found = _named(views, options["call"])
    return Output(_document(found, is_whole=True), list(_lines(found)))


def _views(checkpoint: Checkpoint) -> list[CallView]:
    """The calls of a checkpoint. Raises CommandError if it cannot be read."""
    try:
        return call_views(recorded_calls_of(checkpoint), checkpoint)
    except NotReadable as error:
        raise CommandError(translate(error.message)) from error


def _named(views: Sequence[CallView], name: str) -> CallView:
    """The call of this name. Raises CommandError."""
    found = next((view for view in views if view.call.name == name), None)
    if found is None:
        raise CommandError(_("The checkpoint does not record the call %s.") % name)
    return found


def _document(view: CallView, *, is_whole: bool = False) -> dict[str, Any]:
    """A call; its messages, tools and parameters if ``is_whole``."""
    return {**call_document(view.call, is_whole=is_whole), "cost": view.cost.amount}


def _list_lines(views: list[CallView]) -> Iterator[str]:
    if not views:
        yield _("This checkpoint records no model calls.")
    for view in views:
        yield f"{view.call.name}  {_facts(view)}"
        yield f"    {_short(view)}"


def _facts(view: CallView) -> str:
    """The model, agent, duration, tokens and cost, as far as they are recorded."""
    call = view.call
    sent = call.usage.tokens_in
    tokens = ngettext("%(sent)s token in, %(received)s out", "%(sent)s tokens in, %(received)s out", sent) % {
        "sent": count_text(sent),
        "received": count_text(call.usage.tokens_out),
    }
    facts = [
        call.model,
        call.agent,
        duration(call.seconds) if call.seconds is not None else "",
        tokens if call.usage.tokens else "",
        money(view.cost.amount) if view.cost.amount is not None else "",
    ]
    return ", ".join(fact for fact in facts if fact)


def _short(view: CallView) -> str:
    call = view.call
    if call.error or call.answer is None:
        text = call.error or _("No answer is recorded")
    else:
        text = call.answer.text or ", ".join(tool.name for tool in call.answer.tools)
    return Truncator(" ".join(text.split())).chars(MAX_SHOWN)


def _lines(view: CallView) -> Iterator[str]:
    call = view.call
    yield f"{call.name}  {_facts(view)}"
    for name, value in {**call.parameters, **call.reported}.items():
        yield f"  {name} = {value!r}"
    for tool in call.tools:
        yield f"  {_('tool')}: {tool.name}"
    for message in call.messages:
        yield from _message_lines(message)
    if call.answer:
        yield from _message_lines(call.answer)
    if call.error:
        yield f"! {call.error}"


def _message_lines(message: CallMessage) -> Iterator[str]:
    yield f"{message.role}:"
    yield from (f"    {line}" for line in message.text.splitlines())
    yield from (f"    {tool.name}({tool.arguments})" for tool in message.tools)


CALL = Subcommand(
    gettext_lazy("List the model calls of a checkpoint, or show one: its messages, answer, tokens and cost."),
    _add_arguments,
    _handle,
)


# ``forkline replay``.


def _add_replay_arguments(parser: CommandParser) -> None:
    add_checkpoint_argument(parser, nargs="?")
    parser.add_argument("call", type=NAME, nargs="?", metavar="CALL", help=_("The name of a call."))
    parser.add_argument(
        "--all",
        action="store_true",
        help=_("Replay all calls of the branch up to this checkpoint."),
    )
    parser.add_argument(
        "--collection",
        type=NAME,
        metavar="NAME",
        help=_("Replay the calls of this collection, each in the project of its location."),
    )
    add_options(parser, *REPLAY_OPTIONS, SCORE)
    add_project_arguments(parser)
    add_options(parser, *SCHEDULE)
    parser.add_argument("--plan", action="store_true", help=_("Show the plan without starting anything."))
    add_wait_argument(parser)


def _handle_replay(options: Mapping[str, Any]) -> Output:
    """The job, and its answers if it was waited for. Raises CommandError for invalid arguments."""
    if options["collection"]:
        return _handle_collection(options)
    if not options["checkpoint"]:
        raise CommandError(_("Name a checkpoint, or a collection with --collection."))
    if options["score"]:
        raise CommandError(_("--score needs --collection."))
    checkpoint = checkpoint_at(options["checkpoint"])
    if options["all"]:
        return _handle_all(checkpoint, options)
    if not options["call"]:
        raise CommandError(_("Name a call, or replay all of them with --all."))
    view = _named(_views(checkpoint), options["call"])
    values = _replay_values(view.call, options)
    _folder, entry_point = source_of(checkpoint.location, contents_to_run(checkpoint), options)
    request = ReplayRequest(
        checkpoint=checkpoint,
        project=checkpoint.location.project if options["plan"] else project_for(checkpoint.location, options),
        entry_point=entry_point,
        call=view.call,
        options=launch_options_of(options),
        **values,
        **sender_of(options),
    )
    preview = preview_replay(request)
    lines = [preview.sentence, f"{_('Recorded call')}: {_facts(view) or _('not recorded')}"]
    if options["plan"]:
        return _replay_planned(preview, lines)
    try:
        job = replay(preview)
    except LaunchRefused as refused:
        found = refusal(checkpoint.recorded_branch, [], refused)
        return Output({**found.document, "calls": preview.calls, "answers": []}, found.lines, found.status)
    return _with_answers(job, outcome_of(job, [], options["wait"]), lines)


def _with_answers(job: Job, found: Output, lines: Sequence[str]) -> Output:
    answers = list(new_answers(job))
    document = {
        **found.document,
        "calls": _calls_of(job),
        "answers": list(map(_answer_document, answers)),
    }
    shown = [line for answer in answers for line in _answer_lines(answer)]
    return Output(document, [*lines, *found.lines, *shown], found.status)


def _calls_of(job: Job) -> int:
    """The number of model calls that a replay makes."""
    replayed = job.request["replay"]
    return len(replayed["models"]) * int(replayed["times"])


def _handle_all(checkpoint: Checkpoint, options: Mapping[str, Any]) -> Output:
    """The jobs of all calls, and their answers if they were waited for. Raises CommandError."""
    if options["call"] or options["message"] or options["tools"] or options["parameters"]:
        raise CommandError(_("--all replays the calls as they are: name no call, and edit nothing."))
    views = _views(checkpoint)
    _folder, entry_point = source_of(checkpoint.location, contents_to_run(checkpoint), options)
    project = checkpoint.location.project if options["plan"] else project_for(checkpoint.location, options)
    return _replayed_calls(
        calls_of_branch(checkpoint, [view.call for view in views], project, entry_point), options
    )


def _handle_collection(options: Mapping[str, Any]) -> Output:
    """The jobs of the calls of a collection, with their answers and scores. Raises CommandError."""
    edits = ("checkpoint", "message", "tools", "parameters", "all", "kind", "entrypoint", "graph", *UNNAMED)
    if any(options[name] for name in edits):
        message = _("--collection replays the calls as they are, in their own projects: name nothing else.")
        raise CommandError(message)
    return _replayed_calls(calls_of_collection(existing_collection(options["collection"])), options)


def _replayed_calls(calls: Mapping[str, Any], options: Mapping[str, Any]) -> Output:
    """The jobs of these calls, and their answers if they were waited for. Raises CommandError."""
    request = CallsReplayRequest(
        **calls,
        **sender_of(options),
        options=launch_options_of(options),
        replay_models=_models(options),
        times=options["times"] or 1,
        score=options["score"] or "",
    )
    preview = preview_calls_replay(request)
    lines = [preview.sentence]
    if options["plan"]:
        # The request has no project yet: only a start confirms one.
        checks = [one for one in preview.checks if one.code not in (Code.PROJECT, Code.HOST)]
        for member in preview.members:
            if member.request and not member.refusals:
                (view,) = call_views([member.request.call], member.request.checkpoint)
                lines.append(f"{member.chosen.label}: {_facts(view)}")
        lines += [*_refused_lines(preview), *messages_of(checks), _("Nothing has been started.")]
        return Output(_preview_document(preview, " ".join(messages_of(checks))), lines, int(bool(checks)))
    try:
        started = replay_calls(preview)
    except LaunchRefused as refused:
        refused_lines = [*lines, *_refused_lines(preview), *messages_of(refused.refusals)]
        return Output(_preview_document(preview, str(refused)), refused_lines, 1)
    if options["wait"]:
        wait_for(list(started.branches), options["wait"])
    found = _replayed(started, list(map(_planned_document, preview.refused)))
    return Output(
        {**found.document, "left_out": request.left_out},
        [*lines, *_refused_lines(preview), *found.lines],
        found.status,
    )


def _replayed(started: Sweep, refused: Sequence[Mapping[str, Any]] = ()) -> Output:
    """The present outcome of the replays of several calls, with the documents of ``refused`` ones."""
    lines, compared = list[str](), sweeps.runs_of(started)
    for one in sweeps.in_order(compared, "difference") if started.score else compared:
        lines += ["", f"{status_label(one.job)}: {one.job.variation} ({one.job.pk})"]
        lines += [f"! {translate(one.job.error)}"] if one.job.error else []
        lines += [line for answer in new_answers(one.job) for line in _answer_lines(answer)]
        lines += [f"  {one.pair_text}"] if started.score else []
    mean = sweeps.mean_difference_of(compared)
    is_good = not refused and all(is_well(one.job) for one in compared)
    document = _replays_document([*map(_replay_document, compared), *refused]) | {
        "group": str(started.pk),
        "calls": sum(_calls_of(one.job) for one in compared),
        "models": compared[0].job.request["replay"]["models"] if compared else [],
        "limits": started.limits,
        "mean_difference": asdict(mean) if mean else None,
    }
    return Output(document, [*lines, *mean_lines(mean)], status=0 if is_good else 1)


def _replay_outcome(key: UUID, waits: bool) -> Outcome | None:
    """The present outcome of the replay that was started with a key, without what was refused."""

    def with_answers(job: Job, found: Output) -> Output:
        return _with_answers(job, found, [calls_sentence(_calls_of(job))])

    return job_outcome(key, waits, with_answers) or group_outcome(key, _replayed)


def _models(options: Mapping[str, Any]) -> tuple[str, ...]:
    text = options["models"]
    return () if text is None else parsed("--models", REPLAY_MODELS.parse, read_text(text))


def _refused_lines(preview: CallsReplayPreview) -> list[str]:
    found = [f"{_('refused')}: {one.chosen.label} {' '.join(one.messages)}" for one in preview.refused]
    if preview.request.left_out:
        text = _("Older calls beyond the limit, which are not replayed: %(count)s.")
        found.append(text % {"count": count_text(preview.request.left_out)})
    return found


def _planned_document(member: CallMember) -> dict[str, Any]:
    checkpoint = member.chosen.checkpoint
    return {
        "call": member.chosen.name,
        "target": checkpoint.target if checkpoint else None,
        "job": None,
        "status": "refused" if member.refusals else "planned",
        "error": " ".join(member.messages),
        "answers": [],
        "score": None,
        "recorded_score": None,
    }


def _replay_document(one: sweeps.ComparedBranch) -> dict[str, Any]:
    job = one.job
    return {
        "call": job.replayed_call,
        "target": job.checkpoint.target if job.checkpoint else None,
        "job": str(job.pk),
        "status": job.status,
        "error": translate(job.error),
        "answers": [_answer_document(answer) for answer in new_answers(job)],
        "score": one.score,
        "recorded_score": score_of(one.recorded),
    }


def _replays_document(replays: list[Any]) -> dict[str, Any]:
    return {
        "group": None,
        "calls": 0,
        "models": [],
        "limits": {},
        "left_out": 0,
        "error": "",
        "replays": replays,
        "mean_difference": None,
    }


def _preview_document(preview: CallsReplayPreview, error: str) -> dict[str, Any]:
    return _replays_document(list(map(_planned_document, preview.members))) | {
        "calls": preview.calls,
        "models": list(preview.request.replay_models),
        "limits": dict(preview.request.options.limits),
        "left_out": preview.request.left_out,
        "error": error,
    }


def _replay_values(call: RecordedCall, options: Mapping[str, Any]) -> dict[str, Any]:
    """The edited call and the models, as fields of a request. Raises CommandError."""

    def value(option: Option[Any], stored: Any) -> Any:
        text = options[option.name]
        return stored if text is None else parsed(f"--{option.name}", option.parse, read_text(text))

    recorded = (call.model,) if call.model else ()
    messages = call_messages(call)
    edits = [
        edit
        for text in options["message"]
        for edit in message_edits(parsed("--message", parse_json, read_text(text)), messages)
    ]
    return {
        "messages": edited_call_messages(messages, edits),
        "tools": value(REPLAY_TOOLS, call_tools(call)),
        "parameters": value(PARAMETERS, call_parameters(call)),
        "replay_models": _models(options) or recorded,
        "times": options["times"] or 1,
    }


def _replay_planned(preview: ReplayPreview, lines: list[str]) -> Output:
    # The request has no project yet: only a start confirms one.
    checks = [one for one in preview.checks if one.code not in (Code.PROJECT, Code.HOST)]
    error = " ".join(one.message for one in checks)
    document = {
        "status": "refused" if checks else "planned",
        "calls": preview.calls,
        "models": list(preview.request.replay_models),
        "error": error,
    }
    return Output(
        document, [*lines, *filter(None, [error]), _("Nothing has been started.")], status=int(bool(checks))
    )


def _answer_document(answer: ReplayedAnswer) -> dict[str, Any]:
    return {
        "model": answer.model,
        "attempt": answer.attempt,
        "seconds": answer.seconds,
        "tokens": answer.tokens or None,
        "cost": answer.cost.amount,
        "error": answer.error or None,
        "answer": message_document(answer.message) if answer.message else None,
    }


def _answer_lines(answer: ReplayedAnswer) -> Iterator[str]:
    tokens = ngettext("%(count)s token", "%(count)s tokens", answer.tokens)
    facts = [
        answer.model,
        str(answer.attempt),
        duration(answer.seconds) if answer.seconds is not None else "",
        tokens % {"count": count_text(answer.tokens)} if answer.tokens else "",
        money(answer.cost.amount) if answer.cost.amount is not None else "",
    ]
    yield ""
    yield ", ".join(fact for fact in facts if fact)
    if answer.message:
        yield from _message_lines(answer.message)
    elif answer.error:
        yield f"! {answer.error}"


REPLAY = Subcommand(
    gettext_lazy("Make a recorded model call again, edited, with one or more models of the project."),
    _add_replay_arguments,
    _handle_replay,
    outcome=_replay_outcome,
)
