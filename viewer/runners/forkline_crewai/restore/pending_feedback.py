"""A flow that had stopped to wait for feedback goes on from there: the method is not run again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai.flow import human_feedback
from crewai.flow.flow import Flow
from crewai.flow.persistence import SQLiteFlowPersistence

from forkline_crewai.human_input.feedback import config_of, feedback_for
from forkline_crewai.restore import restoring
from forkline_runner.questions import Questions

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from viewer.jobs.spool import Request


def take_up(
    flow: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, questions: Questions
) -> None:
    """Where this flow waits for feedback, have the method that waits return what it had returned.

    A checkpoint does not keep that; the flow's own store of states does, under the id of its state. With
    an edited state the method runs again, as what it had returned was made of another.
    """
    identifier = str((saved.get("checkpoint_state") or {}).get("id") or "")
    store = _store_of(flow) if identifier and request["state"] is None else None
    loaded = store.load_pending_feedback(identifier) if store is not None else None
    if store is None or loaded is None:
        return
    values, context = loaded
    method = str(context.method_name)
    if config_of(flow, method) is None:
        return
    if method in {str(name) for name in flow._completed_methods}:
        if not _waits_at_the_end(method, restoring.events_in(body)):
            return
        flow._completed_methods.discard(method)
    answered = request["kind"] == "resume"
    clear = functools.partial(store.clear_pending_feedback, identifier) if answered else None
    _return_as_before(flow, method, values, context, questions, clear)


def _store_of(flow: Any) -> Any:
    """Where the flow keeps its states: its own store, else the engine's usual one if there is such a file."""
    if flow.persistence is not None:
        return flow.persistence
    if not any(config_of(flow, str(method)) for method in flow._methods):
        return None
    path: Any = SQLiteFlowPersistence.model_fields["db_path"].get_default(call_default_factory=True)
    return SQLiteFlowPersistence() if Path(path).exists() else None


def _waits_at_the_end(method: str, events: list[dict[str, Any]]) -> bool:
    """Whether the last that is recorded of the method is that it waits."""
    kinds = [
        event.get("type")
        for event in events
        if event.get("method_name") == method
        and event.get("type") in {"method_execution_paused", "method_execution_finished"}
    ]
    return kinds[-1:] == ["method_execution_paused"]


def _return_as_before(
    flow: Any,
    method: str,
    values: Mapping[str, Any],
    context: PendingFeedbackContext,
    questions: Questions,
    clear: Callable[[], None] | None,
) -> None:
    """If no other method finishes before, the method returns at once, and a person is asked."""
    engine: Any = Flow
    execute = engine._execute_method
    done = {"any": False}

    async def executing(self: Any, name: Any, original: Any, *rest: Any, **named: Any) -> Any:
        if self is not flow or str(name) != method or done["any"]:
            outcome = await execute(self, name, original, *rest, **named)
            done["any"] = done["any"] or self is flow
            return outcome
        done["any"] = True
        _set_state(flow, values)
        outcome = await execute(self, name, _asking_method(flow, context, questions), *rest, **named)
        if clear is not None:
            clear()
        return outcome

    engine._execute_method = executing


def _asking_method(flow: Any, context: PendingFeedbackContext, questions: Questions) -> Callable[..., Any]:
    """Returns what the method had returned; the provider that had stopped the flow is not called again."""

    class Asking:
        def request_feedback(self, context: PendingFeedbackContext, flow: Any) -> str:
            return feedback_for(questions, context, flow)

    def returned(*_: Any, **__: Any) -> Any:
        return context.method_output

    method = str(context.method_name)
    returned.__name__ = method
    config = config_of(flow, method)
    if hasattr(flow, "_resolve_feedback_provider"):
        engine: Any = Flow
        resolve, waits = engine._resolve_feedback_provider, [config]

        def resolved(self: Any, definition: Any) -> Any:
            if self is flow and any(definition is one for one in waits):
                waits.clear()
                return Asking()
            return resolve(self, definition)

        engine._resolve_feedback_provider = resolved
        return returned
    # The engine has wrapped the method itself: so is this one, in the same way.
    names = set(inspect.signature(human_feedback).parameters) - {"provider"}
    options = {name: getattr(config, name) for name in names if hasattr(config, name)}
    asking: Any = human_feedback(**options, provider=Asking())(returned)

    def asked_and_kept(*rest: Any, **named: Any) -> Any:
        result = asking(flow, *rest, **named)
        if flow.persistence is not None:
            flow.persistence.save_state(flow_uuid=flow.flow_id, method_name=method, state_data=flow._state)
        return result

    return asked_and_kept


def _set_state(flow: Any, values: Mapping[str, Any]) -> None:
    """The state as it was when the flow stopped, under the id that it has now."""
    state = flow._state
    if isinstance(state, dict):
        state.update({name: value for name, value in values.items() if name != "id"})
        return
    then = type(state).model_validate(dict(values))
    for name in type(state).model_fields:
        if name != "id":
            object.__setattr__(state, name, getattr(then, name))
