"""``forkline call`` and ``replay``: the model calls of a checkpoint, and one that is made again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.commands.sweeps import wait_for
from viewer.cli.edits import message_edits, parsed, read_text
from viewer.cli.finding import add_checkpoint_argument, checkpoint_at
from viewer.cli.options import add_options, launch_options_of
from viewer.cli.output import Output, Subcommand
from viewer.cli.projects import add_project_arguments, project_for, source_of
from viewer.cli.starting import add_wait_argument, contents_to_run, is_well, outcome_of, refusal
from viewer.engines.recorded_calls import CallMessage, RecordedCall
from viewer.formats import count_text, duration, money
from viewer.host_requests import NotReadable
from viewer.launching.options import (
    PARAMETERS,
    REPLAY_MODELS,
    REPLAY_OPTIONS,
    REPLAY_TOOLS,
    SCHEDULE,
    Option,
)
from viewer.launching.refusals import Code, LaunchRefused, messages_of
from viewer.launching.replay import (
    ReplayPreview,
    call_messages,
    call_parameters,
    call_tools,
    edited_call_messages,
    preview_replay,
    replay,
)
from viewer.launching.replay_calls import CallsReplayPreview, preview_calls_replay, replay_calls
from viewer.launching.requests import CallsReplayRequest, ReplayRequest
from viewer.launching.values import parse_json
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job
from viewer.presentation.calls import CallView, call_views, recorded_calls_of
from viewer.presentation.jobs.status import status_label
from viewer.presentation.replays import ReplayedAnswer, new_answers, replayed_name
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
    call, usage = view.call, view.call.usage
    document: dict[str, Any] = {
        "name": call.name,
        "id": call.id,
        "model": call.model or None,
        "agent": call.agent or None,
        "started_at": call.start.isoformat() if call.start else None,
        "seconds": call.seconds,
        "tokens": usage.tokens or None,
        "tokens_in": usage.tokens_in or None,
        "tokens_out": usage.tokens_out or None,
        "tokens_cached": usage.cached or None,
        "cost": view.cost.amount,
        "error": call.error or None,
        "answer": _message_document(call.answer) if call.answer else None,
    }
    if is_whole:
        document |= {
            "is_conversation": call.is_conversation,
            "messages": [_message_document(message) for message in call.messages],
            "tools": [
                {"name": tool.name, "description": tool.description, "schema": tool.schema}
                for tool in call.tools
            ],
            "parameters": dict(call.parameters),
            "reported": dict(call.reported),
        }
    return document


def _message_document(message: CallMessage) -> dict[str, Any]:
    document: dict[str, Any] = {"role": message.role, "text": message.text}
    if message.name:
        document["name"] = message.name
    if message.answers:
        document["answers"] = message.answers
    if message.tools:
        document["tools"] = [
            {"id": tool.id, "name": tool.name, "arguments": tool.arguments} for tool in message.tools
        ]
    return document


def _list_lines(views: list[CallView]) -> Iterator[str]:
    if not views:
        yield _("This checkpoint records no model calls.")
    for view in views:
        yield f"{view.call.name}  {_facts(view)}"
        yield f"    {_short(view)}"


def _facts(view: CallView) -> str:
    """The model, agent, duration, tokens and cost, as far as they are recorded."""
    call = view.call
    tokens = _("%(sent)s tokens in, %(received)s out") % {
        "sent": count_text(call.usage.tokens_in),
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
    add_checkpoint_argument(parser)
    parser.add_argument("call", type=NAME, nargs="?", metavar="CALL", help=_("The name of a call."))
    parser.add_argument(
        "--all",
        action="store_true",
        help=_("Replay all calls of the branch up to this checkpoint."),
    )
    add_options(parser, *REPLAY_OPTIONS)
    add_project_arguments(parser)
    add_options(parser, *SCHEDULE)
    parser.add_argument("--plan", action="store_true", help=_("Show the plan without starting anything."))
    add_wait_argument(parser)


def _handle_replay(options: Mapping[str, Any]) -> Output:
    """The job, and its answers if it was waited for. Raises CommandError for invalid arguments."""
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
    found = outcome_of(job, [], options["wait"])
    answers = list(new_answers(job))
    document = {**found.document, "calls": preview.calls, "answers": list(map(_answer_document, answers))}
    shown = [line for answer in answers for line in _answer_lines(answer)]
    return Output(document, [*lines, *found.lines, *shown], found.status)


def _handle_all(checkpoint: Checkpoint, options: Mapping[str, Any]) -> Output:
    """The jobs of all calls, and their answers if they were waited for. Raises CommandError."""
    if options["call"] or options["message"] or options["tools"] or options["parameters"]:
        raise CommandError(_("--all replays the calls as they are: name no call, and edit nothing."))
    views = _views(checkpoint)
    _folder, entry_point = source_of(checkpoint.location, contents_to_run(checkpoint), options)
    request = CallsReplayRequest(
        checkpoint=checkpoint,
        calls=[view.call for view in views],
        project=checkpoint.location.project if options["plan"] else project_for(checkpoint.location, options),
        entry_point=entry_point,
        options=launch_options_of(options),
        replay_models=_models(options),
        times=options["times"] or 1,
    )
    preview = preview_calls_replay(request)
    named = {view.call.name: view for view in views}
    lines = [preview.sentence]
    if options["plan"]:
        # The request has no project yet: only a start confirms one.
        checks = [one for one in preview.checks if one.code not in (Code.PROJECT, Code.HOST)]
        lines += [f"{one.label}: {_facts(named[one.call.name])}" for one in preview.starting]
        lines += [*_refused_lines(preview), *messages_of(checks), _("Nothing has been started.")]
        return Output(_all_document(preview, [], " ".join(messages_of(checks))), lines, int(bool(checks)))
    try:
        started = replay_calls(preview)
    except LaunchRefused as refused:
        return Output(_all_document(preview, [], str(refused)), [*lines, *messages_of(refused.refusals)], 1)
    jobs = list(started.branches)
    if options["wait"]:
        wait_for(jobs)
    lines += _refused_lines(preview)
    for job in jobs:
        lines += ["", f"{status_label(job)}: {job.variation} ({job.pk})"]
        lines += [f"! {translate(job.error)}"] if job.error else []
        lines += [line for answer in new_answers(job) for line in _answer_lines(answer)]
    is_good = not preview.refused and all(map(is_well, jobs))
    return Output(_all_document(preview, jobs), lines, status=0 if is_good else 1)


def _models(options: Mapping[str, Any]) -> tuple[str, ...]:
    text = options["models"]
    return () if text is None else parsed("--models", REPLAY_MODELS.parse, read_text(text))


def _refused_lines(preview: CallsReplayPreview) -> list[str]:
    found = [f"{_('refused')}: {one.label} {' '.join(one.messages)}" for one in preview.refused]
    if preview.left_out:
        text = _("Older calls beyond the limit, which are not replayed: %(count)s.")
        found.append(text % {"count": count_text(preview.left_out)})
    return found


def _all_document(preview: CallsReplayPreview, jobs: Sequence[Job], error: str = "") -> dict[str, Any]:
    started = {replayed_name(job): job for job in jobs}
    entries = []
    for one in preview.members:
        job = started.get(one.call.name)
        status = job.status if job else "refused" if one.refusals else "planned"
        entries.append(
            {
                "call": one.call.name,
                "job": str(job.pk) if job else None,
                "status": status,
                "error": translate(job.error) if job else " ".join(one.messages),
                "answers": [_answer_document(answer) for answer in new_answers(job)] if job else [],
            }
        )
    return {
        "group": str(jobs[0].sweep_id) if jobs else None,
        "calls": preview.calls,
        "models": list(preview.request.replay_models),
        "limits": dict(preview.request.options.limits),
        "left_out": preview.left_out,
        "error": error,
        "replays": entries,
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
        "answer": _message_document(answer.message) if answer.message else None,
    }


def _tokens_text(tokens: int) -> str:
    return ngettext("%(count)s token", "%(count)s tokens", tokens) % {"count": count_text(tokens)}


def _answer_lines(answer: ReplayedAnswer) -> Iterator[str]:
    facts = [
        answer.model,
        str(answer.attempt),
        duration(answer.seconds) if answer.seconds is not None else "",
        _tokens_text(answer.tokens) if answer.tokens else "",
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
)
