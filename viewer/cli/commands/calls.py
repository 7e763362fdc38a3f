"""``forkline call``: the model calls of a checkpoint in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.finding import add_checkpoint_argument, checkpoint_at
from viewer.cli.output import Output, Subcommand
from viewer.engines.recorded_calls import CallMessage
from viewer.formats import count_text, duration, money
from viewer.host_requests import NotReadable
from viewer.messages.translation import translate
from viewer.presentation.calls import CallView, call_views, recorded_calls_of
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
    row = checkpoint_at(options["checkpoint"])
    try:
        views = call_views(recorded_calls_of(row), row)
    except NotReadable as error:
        raise CommandError(translate(error.message)) from error
    if not options["call"]:
        return Output({"calls": [_document(view) for view in views]}, list(_list_lines(views)))
    found = next((view for view in views if view.call.name == options["call"]), None)
    if found is None:
        raise CommandError(_("The checkpoint does not record the call %s.") % options["call"])
    return Output(_document(found, is_whole=True), list(_lines(found)))


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
