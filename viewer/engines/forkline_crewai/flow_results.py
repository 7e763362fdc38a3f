"""What a flow's finished methods returned: as the types that they had, and handed on to what still runs."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai.flow.flow import Flow
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from forkline_crewai.words import gettext_noop as _

if TYPE_CHECKING:
    from forkline_crewai.reporting import Reporter


def results_of(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """What each finished method returned, as JSON holds it. Older engines keep it without the names."""
    finished = [event for event in events if event.get("type") == "method_execution_finished"]
    results = {str(event.get("method_name")): event.get("result") for event in finished}
    kept = [entry for entry in saved.get("checkpoint_method_outputs") or [] if isinstance(entry, dict)]
    named = {str(entry["method"]): entry["output"] for entry in kept if entry.keys() >= {"method", "output"}}
    return {**results, **named}


def typed(flow: Any, results: Mapping[str, Any], reporter: Reporter) -> dict[str, Any]:
    """The results as what their methods say that they return; what none says stays as JSON holds it.

    A checkpoint keeps a model's values and not its class, which a listener would miss.
    """
    return {name: _typed(flow, name, value, reporter) for name, value in results.items()}


def _typed(flow: Any, name: str, value: Any, reporter: Reporter) -> Any:
    if not isinstance(value, dict | list) or name not in {str(method) for method in flow._methods}:
        return value
    promised = _promised(getattr(type(flow), name, None))
    if promised is None:
        if isinstance(value, dict):
            reporter.warn(
                _(
                    "The checkpoint does not keep the class of what the method %(method)s has returned: what "
                    "reads it is given a dictionary. Say in the code what %(method)s returns (-> ThatClass) "
                    "to have it."
                ),
                method=name,
            )
        return value
    try:
        return TypeAdapter(promised).validate_json(json.dumps(value))
    except (ValidationError, PydanticUserError, PydanticSchemaGenerationError):
        reporter.warn(
            _(
                "What the method %(method)s has returned does not fit %(type)s, which it says that it "
                "returns: what reads it is given the values as they are."
            ),
            method=name,
            type=repr(promised),
        )
        return value


def _promised(method: Any) -> Any:
    """The type that a method says that it returns, None where it says none."""
    function = inspect.unwrap(getattr(method, "_meth", method)) if method is not None else None
    try:
        return typing.get_type_hints(function).get("return") if function is not None else None
    except Exception:
        # A name that is known to type checkers alone, for one.
        return None


def hand_on(flow: Any, results: Mapping[str, Any]) -> None:
    """Have finished methods hand their own results on to those that still run.

    The engine hands on None, or the last result of all, and does not follow a finished router's route.
    """
    execute_listeners, execute_listener = Flow._execute_listeners, Flow._execute_single_listener
    execute_start = Flow._execute_start_method
    finished = {str(name) for name in flow._completed_methods}

    def is_replayed(self: Any, method: Any) -> bool:
        return (
            self is flow
            and self._is_execution_resuming
            and str(method) in finished
            and str(method) in results
        )

    async def listeners(self: Any, method: Any, result: Any, *rest: Any, **named: Any) -> Any:
        if is_replayed(self, method):
            result = results[str(method)]
        return await execute_listeners(self, method, result, *rest, **named)

    async def listener(self: Any, method: Any, *rest: Any, **named: Any) -> Any:
        replayed = is_replayed(self, method)
        outcome = await execute_listener(self, method, *rest, **named)
        return (results[str(method)], outcome[1]) if replayed else outcome

    async def start(self: Any, method: Any, *rest: Any, **named: Any) -> Any:
        route = results[str(method)] if is_replayed(self, method) and _is_router(self, method) else None
        outcome = await execute_start(self, method, *rest, **named)
        if route is not None:
            # Only a start that runs has its route followed by the engine.
            await execute_listeners(self, type(method)(route), route)
        return outcome

    Flow._execute_listeners, Flow._execute_single_listener = listeners, listener
    Flow._execute_start_method = start


def _is_router(flow: Any, method: Any) -> bool:
    return bool(flow._is_router(method) if hasattr(flow, "_is_router") else method in flow._routers)
