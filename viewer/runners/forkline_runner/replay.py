"""Replays a model call: sends its messages to models of the project. No requested tool is executed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forkline_runner.reporting import MAX_OUTPUT_BYTES, cut, shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

# Measured as JSON, so that an answer always fits into one event.
MAX_TOOLS_BYTES = 40_000
MAX_ERROR = 2000
# Models name the stop sequences differently in what they record and in what they are given.
NAMES = {"stop_sequences": "stop"}


@dataclass(frozen=True)
class Answer:
    """The text of an answer, and the tool calls that it requests: ``name``, ``arguments`` and ``id``."""

    text: str
    tools: Sequence[Mapping[str, Any]] = ()


def replay(request: Request, reporter: Reporter, client_of: Callable[[str], Callable[[], Answer]]) -> str:
    """Call each model as often as requested, and report each answer in an event. Return an empty result.

    ``client_of`` returns a function that sends the request to the model of this name, or raises Refused. All
    are made before the first call. A call that fails is reported, and the others continue. Raises the last
    error if no call was answered.
    """
    wanted = request["replay"]
    clients = [(model, client_of(model)) for model in request["call"]["models"]]
    failure: Exception | None = None
    is_answered = False
    for attempt in range(1, wanted["times"] + 1):
        for model, send in clients:
            if reporter.limits:
                # A model of the project's own class may report nothing when it is called.
                reporter.limits.check(reporter, "model_started", {})
            began, answer, error = time.monotonic(), Answer(""), ""
            try:
                answer = send()
                is_answered = True
            except Exception as raised:
                failure, error = raised, shortened(f"{type(raised).__name__}: {raised}", MAX_ERROR)
            text = cut(answer.text, MAX_OUTPUT_BYTES)
            reporter.write(
                "call_replayed",
                model=model,
                attempt=attempt,
                seconds=round(time.monotonic() - began, 3),
                text=text,
                is_cut=len(text) < len(answer.text),
                tools=_fitting(answer.tools),
                error=error,
            )
    if failure and not is_answered:
        raise failure
    return ""


def parameters_of(request: Request) -> dict[str, Any]:
    """Return the parameters of the call, by the names that a model is given."""
    return {NAMES.get(name, name): value for name, value in request["call"]["parameters"].items()}


def tools_of(request: Request) -> list[dict[str, Any]]:
    """Return the offered tools in the form of OpenAI, which the engines convert for other providers."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool.get("schema") or {"type": "object", "properties": {}},
            },
        }
        for tool in request["call"]["tools"]
    ]


def messages_of(request: Request) -> list[dict[str, Any]]:
    """Return the messages in the form of OpenAI."""
    return [_message(message) for message in request["call"]["messages"]]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message["role"], "content": message["text"]}
    if message.get("name"):
        found["name"] = message["name"]
    if message.get("answers"):
        found["tool_call_id"] = message["answers"]
    if message.get("tools"):
        found["tool_calls"] = [
            {
                "id": tool.get("id") or f"call-{number}",
                "type": "function",
                "function": {"name": tool["name"], "arguments": _arguments(tool.get("args"))},
            }
            for number, tool in enumerate(message["tools"], 1)
        ]
    return found


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {}, ensure_ascii=False)


def _fitting(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requested tool calls; their names alone if they are too long for an event."""
    plain: list[Mapping[str, Any]] = json.loads(json.dumps(list(tools), default=str))
    if len(json.dumps(plain)) <= MAX_TOOLS_BYTES:
        return plain
    return [{"name": shortened(str(tool.get("name")), 200), "arguments": None} for tool in plain[:50]]
