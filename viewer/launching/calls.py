"""What happens when a fork or resume calls a tool or a model: what was chosen, or the default."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.text import Truncator
from django.utils.translation import gettext

from viewer.engines.recorded_calls import (
    ModelChoice,
    RecordedAnswers,
    RecordedToolCall,
    RecordedTools,
    ToolChoice,
    plain_name,
)
from viewer.engines.runner_protocol import ModelCalls, Options, RecordedAnswer, RepeatedCall, Tools
from viewer.formats import short_moment
from viewer.launching.labels import tool_choice_label
from viewer.launching.options import MODEL_CALLS
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import CheckpointRequest
from viewer.models import Project
from viewer.redaction import MARKER

# Maximum calls, and characters of a result, in the request of a job.
MAX_CALLS = 500
MAX_RESULT = 100_000
# Maximum characters of all recorded answers of models, and of what they answer.
MAX_ANSWERS = 4_000_000
# Maximum characters of the arguments and the result of a call, and calls of a tool, that a plan shows.
MAX_SHOWN, MAX_SHOWN_CALLS = 100, 5


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool with its recorded calls, and what happens when the run calls it."""

    tool: str
    calls: Sequence[RecordedToolCall]
    choice: ToolChoice
    # What happens if nobody chooses.
    default: ToolChoice
    # What a declaration changes; empty if a person has chosen.
    note: str = ""

    @property
    def shown(self) -> list["CallView"]:
        """The first calls."""
        return [CallView(call) for call in self.calls[:MAX_SHOWN_CALLS]]

    @property
    def left_out(self) -> int:
        """The number of calls that are not shown."""
        return max(0, len(self.calls) - MAX_SHOWN_CALLS)


@dataclass(frozen=True, slots=True)
class CallView:
    """A recorded call, as a plan shows it."""

    call: RecordedToolCall

    @property
    def arguments(self) -> str:
        """The beginning of the arguments on one line."""
        given = self.call.arguments
        if isinstance(given, dict):
            given = ", ".join(f"{name}: {_one_line(value)}" for name, value in given.items())
        return Truncator(_one_line(given)).chars(MAX_SHOWN)

    @property
    def result(self) -> str:
        """The beginning of the result on one line; empty if there is none."""
        return Truncator(_one_line(self.call.result or "")).chars(MAX_SHOWN)


def _one_line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(text.split())


def tool_views(recorded: RecordedTools, request: CheckpointRequest) -> list[ToolView]:
    """The tools with a record, then those that a person has chosen for and those without a record."""
    kept, chosen = kept_choices(request.project), request.tools
    declared = read_only_tools(request.project)
    by_tool: dict[str, list[RecordedToolCall]] = {}
    for call in recorded.calls:
        by_tool.setdefault(call.tool, []).append(call)
    by_tool |= {tool: [] for tool in (*chosen, *recorded.others) if tool not in by_tool}
    views = []
    for tool, calls in by_tool.items():
        repeats = any(call.at is not None for call in calls) or not recorded.is_known
        is_read_only = plain_name(tool) in declared
        default = kept.get(tool, ToolChoice.ASK if repeats and not is_read_only else ToolChoice.CALL)
        choice = chosen.get(tool, default)
        note = "" if tool in kept or choice != default else _note(is_read_only, default)
        views.append(ToolView(tool, calls, choice, default, note))
    return views


def _note(is_read_only: bool, default: ToolChoice) -> str:
    if is_read_only:
        return gettext("Declared to be read-only by the setting READ_ONLY_TOOLS, so it is called.")
    if default == ToolChoice.ASK:
        return gettext(
            "If its MCP server declares it to be read-only, it is called without asking. Only the run knows."
        )
    return ""


def read_only_tools(project: Project | None) -> set[str]:
    """The plain names of the tools that the setting declares to be read-only for a project."""
    found = set()
    for text in settings.READ_ONLY_TOOLS:
        name, _mark, tool = text.strip().rpartition(":")
        if plain_name(tool) and (not name or (project and name in (project.name, project.folder))):
            found.add(plain_name(tool))
    return found


def kept_choices(project: Project | None) -> dict[str, ToolChoice]:
    """What a person has chosen for the tools of a project, by their names."""
    known = {choice.value for choice in ToolChoice}
    stored = project.tool_choices if project else {}
    return {tool: ToolChoice(text) for tool, text in stored.items() if text in known}


def with_calls(
    options: Options, request: CheckpointRequest, recorded: RecordedTools, answers: RecordedAnswers
) -> Options:
    """The options of a run, and what happens when it calls a tool or a model, unless it calls all of them."""
    if request.calls_no_model:
        in_order = request.model_calls == ModelChoice.IN_ORDER
        usable = [_usable(one, in_order) for one in answers.answers]
        options["model_calls"] = ModelCalls(recorded=usable, in_order=in_order)
    chosen = {**kept_choices(request.project), **new_choices(tool_views(recorded, request))}
    choices = {**dict.fromkeys(read_only_tools(request.project), ToolChoice.CALL), **chosen}
    calls = [_recorded(call) for call in recorded.calls if call.at is not None]
    is_known = recorded.is_known and len(calls) <= MAX_CALLS
    is_decided = any(choice != ToolChoice.CALL for choice in choices.values())
    if calls or request.calls_no_tool or is_decided or not is_known:
        options["tools"] = Tools(
            choices={tool: choice.value for tool, choice in choices.items()},
            recorded=calls[:MAX_CALLS],
            is_known=is_known,
            dry_run=request.calls_no_tool,
        )
    return options


def _usable(one: RecordedAnswer, in_order: bool) -> RecordedAnswer:
    """The answer as a request has it. One with a redacted value, or a very long one, keeps its place only."""
    is_whole = MARKER not in json.dumps([one["text"], one["tools"]], ensure_ascii=False, default=str)
    text = one["text"] if is_whole and len(one["text"] or "") <= MAX_RESULT else None
    sent = one["sent"] if in_order and one["is_in_order"] else ""
    tools = [{**tool, "arguments": _storable(tool["arguments"])} for tool in one["tools"] if is_whole]
    return RecordedAnswer(**{**one, "text": text, "sent": sent, "tools": tools})


def _storable(arguments: Any) -> Any:
    """The arguments; as their text if they have numbers that a database does not store, such as infinity."""
    try:
        json.dumps(arguments, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(arguments, default=str)
    return arguments


def answer_refusals(answers: RecordedAnswers) -> list[Refusal]:
    """Why the recorded answers cannot be used: without all of them, some would answer the wrong calls."""
    size = sum(len(one["text"] or "") + len(one["sent"]) for one in answers.answers)
    if answers.is_known and len(answers.answers) <= MAX_CALLS and size <= MAX_ANSWERS:
        return []
    message = gettext("The recorded answers are too many or too large to read. Call the models instead.")
    return [Refusal(Code.PLAN, message, MODEL_CALLS.name, str(MODEL_CALLS.label))]


def model_note(request: CheckpointRequest, answers: RecordedAnswers) -> str:
    """What happens instead of model calls; empty if models are called."""
    if not request.calls_no_model:
        return ""
    if request.model_calls == ModelChoice.IN_ORDER:
        text = gettext(
            "No model and no tool is called, and nothing is sent. Recorded answers: %(count)d. A call whose "
            "messages differ from the recorded ones gets the next answer."
        )
    else:
        text = gettext(
            "No model and no tool is called, and nothing is sent. Recorded answers: %(count)d. A call whose "
            "messages differ from the recorded ones, as after an edit of what it reads, stops the run."
        )
    return text % {"count": len(answers.answers)}


def model_choice_of(options: Mapping[str, Any]) -> ModelChoice:
    """What the options of a job say about calls of models."""
    calls = options.get("model_calls")
    if calls is None:
        return ModelChoice.CALL
    return ModelChoice.IN_ORDER if calls["in_order"] else ModelChoice.RECORDED


def _recorded(call: RecordedToolCall) -> RepeatedCall:
    # A redacted value neither matches an argument nor answers a call.
    is_whole = MARKER not in json.dumps([call.arguments, call.result], ensure_ascii=False, default=str)
    answers = is_whole and not call.is_error and len(call.result or "") <= MAX_RESULT
    result = call.result if answers else None
    return RepeatedCall(tool=call.tool, arguments=_storable(call.arguments), result=result)


def new_choices(views: Iterable[ToolView]) -> dict[str, ToolChoice]:
    """The choices that differ from what would happen otherwise."""
    return {view.tool: view.choice for view in views if view.choice != view.default}


def tool_lines(view: ToolView) -> list[str]:
    """A tool for the terminal: what happens to its calls, and each recorded one."""
    calls = []
    for one in view.shown:
        at = short_moment(one.call.at) if one.call.at else gettext("requested")
        calls.append(f"  {at}: {one.arguments}" + (f" → {one.result}" if one.result else ""))
    notes = [f"  {view.note}"] if view.note else []
    return [f"{view.tool}: {tool_choice_label(view.choice)}", *notes, *calls]


def tool_document(view: ToolView) -> dict[str, Any]:
    """A tool with its recorded calls as plain values."""
    return {
        "tool": view.tool,
        "choice": view.choice.value,
        "calls": [
            {
                "unit": call.unit,
                "arguments": call.arguments,
                "at": call.at.isoformat() if call.at else None,
                "result": call.result,
                "is_error": call.is_error,
            }
            for call in view.calls
        ],
    }
