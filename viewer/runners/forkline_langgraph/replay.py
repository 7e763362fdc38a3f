"""Replays a model call with LangChain's chat models: those that the project makes, or new ones."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from forkline_langgraph import entry_points
from forkline_langgraph.recorded import NAME_FIELDS, name_of, text_of
from forkline_langgraph.running import Calls
from forkline_runner.calls import Answer, messages_of, parameters_of, replay, tools_of
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


def replay_call(request: Request, reporter: Reporter) -> str:
    """Call the models, and report their answers. Return an empty result. Raises Refused before any call."""
    entry_points.enter_project(request["folder"])
    with ExitStack() as stack:
        if request["entry_point"]:
            stack.enter_context(entry_points.graph_of(request, "replay"))
        return replay(request, reporter, partial(_client, request, _project_models(), Calls(reporter)))


def _project_models() -> list[BaseChatModel]:
    """Return the chat models that the project's code has made, wherever it holds them."""
    # The class itself: a proxy of another library may pretend to be a model.
    return [one for one in gc.get_objects() if issubclass(type(one), BaseChatModel)]


def _client(
    request: Request, known: list[BaseChatModel], reporting: Calls, name: str
) -> Callable[[], Answer]:
    try:
        model: Any = _model(known, name, request["replay"]["model"])
        if tools := tools_of(request):
            model = model.bind_tools(tools)
        if parameters := parameters_of(request):
            model = model.bind(**parameters)
    except Refused:
        raise
    except Exception as error:
        raise Refused(
            "langgraph.model_unusable", model=name, kind=type(error).__name__, error=error
        ) from error

    def send() -> Answer:
        message = model.invoke(messages_of(request), config={"callbacks": [reporting]})
        calls = getattr(message, "tool_calls", None) or []
        tools = [{"name": one["name"], "arguments": one["args"], "id": one.get("id") or ""} for one in calls]
        return Answer(text_of(message.content), tools)

    return send


def _model(known: list[BaseChatModel], name: str, recorded: str) -> BaseChatModel:
    """Return the project's model of this name, else its client with this name, else a new client.

    ``provider:name`` always makes a new client, unless the project has one of that name.
    """
    if (own := next((one for one in known if name_of(one) == name), None)) is not None:
        return own
    # Of models whose names begin alike, in any order, the one whose whole name was recorded.
    dated = (one for one in known if _is_dated(recorded, name_of(one)))
    former = max(dated, key=lambda one: len(name_of(one)), default=None)
    if former is not None and name == recorded:
        return former
    if former is None and len(known) == 1:
        former = known[0]
    if former is not None and ":" not in name:
        field = next(one for one in NAME_FIELDS if one in type(former).model_fields)
        return former.model_copy(update={field: name})
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise Refused("langgraph.no_client", model=name) from error
    made: BaseChatModel = init_chat_model(name)
    return made


def _is_dated(recorded: str, name: str) -> bool:
    """Return whether it is this name, or that with a date, as providers report it: gpt-4.1-2025-04-14."""
    return bool(name) and re.fullmatch(rf"{re.escape(name)}(-[\d-]+)?", recorded) is not None
