"""Continues a flow that paused for feedback, without running the paused method again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai.flow import human_feedback
from crewai.flow.persistence import SQLiteFlowPersistence

from forkline_crewai.human_input.feedback import feedback_config, feedback_for
from forkline_crewai.patches.questions import pending_method
from forkline_crewai.restore import restoring
from forkline_runner.reporting import Questions

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from viewer.host.jobs.request import Request


def continue_pending(
    flow: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, questions: Questions
) -> None:
    """If this flow waits for feedback, make the waiting method return its earlier output.

    A checkpoint does not contain that output; the flow's persistence does, under the id of the flow's state.
    If the state was edited, the method runs again: its output was computed from another state.
    """
    identifier = str((saved.get("checkpoint_state") or {}).get("id") or "")
    store = _store_of(flow) if identifier and request["state"] is None else None
    loaded = store.load_pending_feedback(identifier) if store is not None else None
    if store is None or loaded is None:
        return
    values, context = loaded
    method = str(context.method_name)
    if feedback_config(flow, method) is None:
        return
    if method in {str(name) for name in flow._completed_methods}:
        if not _is_paused(method, restoring.events_in(body)):
            return
        flow._completed_methods.discard(method)

    def resume() -> Callable[..., Any]:
        _set_state(flow, values)
        return _method_that_asks(flow, context, questions)

    def done() -> None:
        # A fork leaves the original's pending feedback in the store.
        if request["kind"] == "resume":
            store.clear_pending_feedback(identifier)

    pending_method.apply(flow, method, resume, done)


def _store_of(flow: Any) -> Any:
    """Return the flow's persistence, else the engine's default one if its file exists, else None."""
    if flow.persistence is not None:
        return flow.persistence
    if not any(feedback_config(flow, str(method)) for method in flow._methods):
        return None
    path: Any = SQLiteFlowPersistence.model_fields["db_path"].get_default(call_default_factory=True)
    return SQLiteFlowPersistence() if Path(path).exists() else None


def _is_paused(method: str, events: list[dict[str, Any]]) -> bool:
    """Return whether the last recorded event of the method is that it paused."""
    kinds = [
        event.get("type")
        for event in events
        if event.get("method_name") == method
        and event.get("type") in {"method_execution_paused", "method_execution_finished"}
    ]
    return kinds[-1:] == ["method_execution_paused"]


def _method_that_asks(flow: Any, context: PendingFeedbackContext, questions: Questions) -> Callable[..., Any]:
    """Return a method that returns the paused method's output, and asks a person for feedback on it.

    The provider that paused the flow is not called again.
    """

    class Provider:
        def request_feedback(self, context: PendingFeedbackContext, flow: Any) -> str:
            return feedback_for(questions, context, flow)

    def returned(*_: Any, **__: Any) -> Any:
        return context.method_output

    method = str(context.method_name)
    returned.__name__ = method
    config = feedback_config(flow, method)
    if hasattr(flow, "_resolve_feedback_provider"):
        pending_method.apply_provider(flow, config, Provider())
        return returned
    # This version wraps the method itself: do the same here.
    names = set(inspect.signature(human_feedback).parameters) - {"provider"}
    options = {name: getattr(config, name) for name in names if hasattr(config, name)}
    ask: Any = human_feedback(**options, provider=Provider())(returned)

    def ask_and_save(*rest: Any, **named: Any) -> Any:
        result = ask(flow, *rest, **named)
        if flow.persistence is not None:
            flow.persistence.save_state(flow_uuid=flow.flow_id, method_name=method, state_data=flow._state)
        return result

    return ask_and_save


def _set_state(flow: Any, values: Mapping[str, Any]) -> None:
    """Set the state to what it was when the flow paused, except for its id."""
    state = flow._state
    if isinstance(state, dict):
        state.update({name: value for name, value in values.items() if name != "id"})
        return
    paused = type(state).model_validate(dict(values))
    for name in type(state).model_fields:
        if name != "id":
            object.__setattr__(state, name, getattr(paused, name))
