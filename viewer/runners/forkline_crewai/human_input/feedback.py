"""Feedback on what a flow's method returned, asked through the spool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.flow_events import HumanFeedbackReceivedEvent, HumanFeedbackRequestedEvent
from crewai.flow.flow_context import current_flow_method_name

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from forkline_runner.reporting import Questions


def feedback_for(questions: Questions, context: PendingFeedbackContext, flow: Any) -> str:
    """Return a person's feedback on what the engine passes to its feedback providers."""
    method = str(context.method_name)
    return feedback(
        questions, flow, method, context.message, context.method_output, context.emit, context.default_outcome
    )


def feedback(
    questions: Questions,
    flow: Any,
    method: str,
    message: str,
    output: Any,
    emit: Any = None,
    default_outcome: str | None = None,
) -> str:
    """Return a person's feedback on a method's output, and emit the events that the engine would emit."""
    choices = [str(one) for one in emit or []]
    name = str(getattr(flow, "name", None) or type(flow).__name__)
    crewai_event_bus.emit(
        flow,
        HumanFeedbackRequestedEvent(
            type="human_feedback_requested",
            flow_name=name,
            method_name=method,
            output=output,
            message=message,
            emit=choices or None,
        ),
    )
    empty_means = (default_outcome or default_outcome_of(flow, method) or choices[0]) if choices else ""
    answer = questions.ask(
        "human_feedback", message, method=method, output=output, choices=choices, empty_means=empty_means
    ).strip()
    crewai_event_bus.emit(
        flow,
        HumanFeedbackReceivedEvent(
            type="human_feedback_received", flow_name=name, method_name=method, feedback=answer, outcome=None
        ),
    )
    return answer


def default_outcome_of(flow: Any, method: str) -> str:
    """Return the outcome of an empty answer by the method's decorator, or an empty string."""
    return str(getattr(feedback_config(flow, method), "default_outcome", None) or "")


def feedback_config(flow: Any, method: str) -> Any:
    """Return the arguments of the method's ``@human_feedback``, or None. Versions keep them differently."""
    methods = getattr(getattr(flow, "_definition", None), "methods", None) or {}
    defined = getattr(methods.get(method), "human_feedback", None)
    return defined or getattr(flow._methods.get(method), "__human_feedback_config__", None)


def running_method() -> str:
    """Return the name of the flow's method that is running, if the engine knows it."""
    return str(current_flow_method_name.get("") or "")
