"""Has whatever of the engine would ask at a terminal ask through the spool instead."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.flow_events import HumanFeedbackReceivedEvent, HumanFeedbackRequestedEvent
from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai.flow.flow import Flow
from crewai.flow.flow_config import flow_config
from crewai.flow.flow_context import current_flow_method_name

from forkline_crewai.human_input import output_review
from forkline_runner.questions import NobodyWaits, Questions

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext


def install(questions: Questions) -> None:
    """Ask through these questions from now on. A provider of the project's own is called as it always was;
    only where it leaves the flow to wait for an answer, that answer is asked for here, too."""
    output_review.ask_about_tasks(questions)
    _ask_for_feedback(questions)
    _ask_for_input(questions)
    flow_config_provider = flow_config.hitl_provider
    if flow_config_provider is not None:
        stand_in_for(type(flow_config_provider), questions)


def _ask_for_feedback(questions: Questions) -> None:
    engine: Any = Flow

    def in_flow(
        self: Any, message: str, output: Any, metadata: Any = None, emit: Any = None, **named: Any
    ) -> str:
        method = str(named.get("method_name") or _method_running())
        return feedback(questions, self, method, message, output, emit)

    engine._request_human_feedback = in_flow

    def in_console(self: Any, context: PendingFeedbackContext, flow: Any) -> str:
        return feedback_for(questions, context, flow)

    provider: Any = ConsoleProvider
    provider.request_feedback = in_console
    _route_chosen_outcomes(engine)
    if hasattr(engine, "_resolve_feedback_provider"):
        resolve = engine._resolve_feedback_provider

        def resolved(self: Any, definition: Any) -> Any:
            found = resolve(self, definition)
            if found is not None:
                stand_in_for(type(found), questions)
            return found

        engine._resolve_feedback_provider = resolved


def stand_in_for_methods(flow: Any, questions: Questions) -> None:
    """The same for the providers that older engines keep in a flow's methods, where nothing resolves them."""
    for method in flow._methods.values():
        config: Any = getattr(method, "__human_feedback_config__", None)
        if config is not None and config.provider is not None:
            stand_in_for(type(config.provider), questions)


def stand_in_for(provider: Any, questions: Questions) -> None:
    """Where this class of providers would leave a flow to wait for an answer, ask for the answer."""
    original = provider.request_feedback
    if provider is ConsoleProvider or hasattr(original, "is_stood_in_for"):
        return

    async def awaited(pending: Any, context: Any, flow: Any) -> Any:
        try:
            return await pending
        except HumanFeedbackPending:
            return await asyncio.to_thread(feedback_for, questions, context, flow)

    @functools.wraps(original)
    def asking(self: Any, context: PendingFeedbackContext, flow: Any) -> Any:
        try:
            given = original(self, context, flow)
        except HumanFeedbackPending:
            return feedback_for(questions, context, flow)
        return awaited(given, context, flow) if inspect.iscoroutine(given) else given

    asking.is_stood_in_for = True  # type: ignore[attr-defined]
    provider.request_feedback = asking


def feedback_for(questions: Questions, context: PendingFeedbackContext, flow: Any) -> str:
    """What a person says of a method's output, asked with what the engine hands its providers."""
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
    """What a person says of a method's output. The engine's own events are emitted, as it would itself."""
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
    accepted = (default_outcome or default_of(flow, method) or choices[0]) if choices else ""
    words = questions.ask(
        "human_feedback", message, method=method, output=output, choices=choices, empty_means=accepted
    ).strip()
    crewai_event_bus.emit(
        flow,
        HumanFeedbackReceivedEvent(
            type="human_feedback_received", flow_name=name, method_name=method, feedback=words, outcome=None
        ),
    )
    return words


def default_of(flow: Any, method: str) -> str:
    """The outcome that an empty answer leads to by the method's own decorator; empty where it names none."""
    return str(getattr(config_of(flow, method), "default_outcome", None) or "")


def config_of(flow: Any, method: str) -> Any:
    """What ``@human_feedback`` says of the method, wherever this version keeps it; None without one."""
    methods = getattr(getattr(flow, "_definition", None), "methods", None) or {}
    defined = getattr(methods.get(method), "human_feedback", None)
    return defined or getattr(flow._methods.get(method), "__human_feedback_config__", None)


def _route_chosen_outcomes(engine: Any) -> None:
    """An answer whose first line is one of the outcomes is that outcome: no model is asked what it means."""
    collapse: Callable[..., str] = engine._collapse_to_outcome

    def chosen(self: Any, feedback: str, outcomes: Any, llm: Any) -> str:
        first = feedback.strip().partition("\n")[0].strip().lower()
        exact = [one for one in outcomes if str(one).lower() == first]
        return str(exact[0]) if exact else collapse(self, feedback=feedback, outcomes=outcomes, llm=llm)

    engine._collapse_to_outcome = chosen


def _ask_for_input(questions: Questions) -> None:
    def request(self: Any, message: str, flow: Any, metadata: Any = None) -> str | None:
        try:
            asker = (id(flow), message)
            return questions.ask("flow_input", message, asker=asker, method=_method_running()).strip()
        except NobodyWaits:
            return None

    provider: Any = ConsoleProvider
    provider.request_input = request
    engine: Any = Flow
    ask: Callable[..., Any] = engine.ask

    @functools.wraps(ask)
    def asked(self: Any, message: str, timeout: float | None = None, *rest: Any, **named: Any) -> Any:
        try:
            return ask(self, message, timeout, *rest, **named)
        finally:
            if timeout is not None:
                questions.take_back((id(self), message))

    engine.ask = asked


def _method_running() -> str:
    """The method that is being run, where the engine says so."""
    return str(current_flow_method_name.get("") or "")
