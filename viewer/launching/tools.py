"""What happens when a fork or resume calls a tool: the person's choice, the project's, or the default."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext

from viewer.engines.runner_request import Options, RepeatedCall, Tools
from viewer.engines.tool_calls import RecordedToolCall, RecordedTools, ToolChoice
from viewer.formats import short_moment
from viewer.launching.labels import tool_choice_label
from viewer.launching.requests import CheckpointRequest
from viewer.models import Project
from viewer.redaction import MARKER

# Maximum calls, and characters of a result, in the request of a job.
MAX_CALLS = 500
MAX_RESULT = 100_000
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
    by_tool: dict[str, list[RecordedToolCall]] = {}
    for call in recorded.calls:
        by_tool.setdefault(call.tool, []).append(call)
    by_tool |= {tool: [] for tool in (*chosen, *recorded.others) if tool not in by_tool}
    views = []
    for tool, calls in by_tool.items():
        repeats = any(call.at is not None for call in calls) or not recorded.is_known
        default = kept.get(tool, ToolChoice.ASK if repeats else ToolChoice.CALL)
        views.append(ToolView(tool, calls, chosen.get(tool, default), default))
    return views


def kept_choices(project: Project | None) -> dict[str, ToolChoice]:
    """What a person has chosen for the tools of a project, by their names."""
    known = {choice.value for choice in ToolChoice}
    stored = project.tool_choices if project else {}
    return {tool: ToolChoice(text) for tool, text in stored.items() if text in known}


def with_tools(options: Options, request: CheckpointRequest, recorded: RecordedTools) -> Options:
    """The options of a run, and what happens when it calls a tool, unless it calls every tool."""
    choices = {**kept_choices(request.project), **new_choices(tool_views(recorded, request))}
    calls = [_recorded(call) for call in recorded.calls if call.at is not None]
    is_known = recorded.is_known and len(calls) <= MAX_CALLS
    is_decided = any(choice != ToolChoice.CALL for choice in choices.values())
    if calls or request.dry_run or is_decided or not is_known:
        options["tools"] = Tools(
            choices={tool: choice.value for tool, choice in choices.items()},
            recorded=calls[:MAX_CALLS],
            is_known=is_known,
            dry_run=request.dry_run,
        )
    return options


def _recorded(call: RecordedToolCall) -> RepeatedCall:
    # A redacted value neither matches an argument nor answers a call.
    is_whole = MARKER not in json.dumps([call.arguments, call.result], ensure_ascii=False, default=str)
    answers = is_whole and not call.is_error and len(call.result or "") <= MAX_RESULT
    return RepeatedCall(tool=call.tool, arguments=call.arguments, result=call.result if answers else None)


def new_choices(views: Iterable[ToolView]) -> dict[str, ToolChoice]:
    """The choices that differ from what would happen otherwise."""
    return {view.tool: view.choice for view in views if view.choice != view.default}


def tool_lines(view: ToolView) -> list[str]:
    """A tool for the terminal: what happens to its calls, and each recorded one."""
    calls = []
    for one in view.shown:
        at = short_moment(one.call.at) if one.call.at else gettext("requested")
        calls.append(f"  {at}: {one.arguments}" + (f" → {one.result}" if one.result else ""))
    return [f"{view.tool}: {tool_choice_label(view.choice)}", *calls]


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
