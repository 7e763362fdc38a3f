"""Patches of what the engine asks a person, and the questions: through the spool instead of the terminal."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai.core.providers.human_input import SyncHumanInputProvider
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.flow_events import HumanFeedbackReceivedEvent, HumanFeedbackRequestedEvent
from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai.flow.flow import Flow
from crewai.flow.flow_config import flow_config
from crewai.flow.flow_context import current_flow_method_name
from crewai.utilities.agent_utils import format_message_for_llm
from crewai.utilities.i18n import I18N_DEFAULT

from forkline_runner.reporting import Withdrawn, as_text

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from forkline_runner.reporting import Questions


def ask_for_output_review(questions: Questions) -> None:
    """Ask for the review of a task's output (``human_input``) until a person accepts it.

    Patches: crewai.core.providers.human_input.SyncHumanInputProvider.handle_feedback and
        handle_feedback_async
    Versions: 1.14.2 and newer
    Why: A run has no terminal. The class is patched, because a provider that is set for a context does not
        reach tasks in other threads.
    Test: quality/compatibility/rows/questions.py::human_input
    """

    def handle(self: Any, answer: Any, context: Any) -> Any:
        while context.ask_for_human_input:
            feedback = _ask_about_output(questions, answer, context)
            if not feedback.strip():
                context.ask_for_human_input = False
            elif hasattr(context, "_invoke_loop"):
                context.messages.append(context._format_feedback_message(feedback))
                answer = context._invoke_loop()
            else:
                _restart_with(feedback, context)
                context.kickoff()
                answer = context.state.current_answer
        return answer

    async def handle_async(self: Any, answer: Any, context: Any) -> Any:
        while context.ask_for_human_input:
            feedback = await asyncio.to_thread(_ask_about_output, questions, answer, context)
            if not feedback.strip():
                context.ask_for_human_input = False
            elif hasattr(context, "_ainvoke_loop"):
                context.messages.append(context._format_feedback_message(feedback))
                answer = await context._ainvoke_loop()
            else:
                _restart_with(feedback, context)
                await context.kickoff_async()
                answer = context.state.current_answer
        return answer

    provider: Any = SyncHumanInputProvider
    provider.handle_feedback, provider.handle_feedback_async = handle, handle_async


def _ask_about_output(questions: Questions, answer: Any, context: Any) -> str:
    """Return a person's feedback on an agent's answer; empty if the person accepts it."""
    task, crew = getattr(context, "task", None), getattr(context, "crew", None)
    agent = getattr(context, "agent", None) or getattr(task, "agent", None)
    tasks = list(getattr(crew, "tasks", None) or [])
    position = next((number for number, one in enumerate(tasks, 1) if one is task), 0)
    return questions.ask(
        "human_input",
        str(getattr(task, "description", "") or ""),
        unit=str(getattr(task, "id", "") or ""),
        task=getattr(task, "name", None) or "",
        position=position or None,
        agent=str(getattr(agent, "role", "") or "").strip(),
        output=as_text(answer.output),
    )


def _restart_with(feedback: str, executor: Any) -> None:
    """Reset an executor for another round with the feedback, in versions whose executors cannot do so."""
    state = executor.state
    state.messages.append(
        format_message_for_llm(I18N_DEFAULT.slice("feedback_instructions").format(feedback=feedback))
    )
    executor._finalize_called = False
    state.current_answer, state.is_finished, state.iterations = None, False, 0
    state.use_native_tools, state.pending_tool_calls = False, []
    state.plan, state.plan_ready, state.todos = None, False, type(state.todos)()
    state.replan_count, state.last_replan_reason = 0, None
    state.observations, state.execution_log = {}, []


def ask_for_feedback(questions: Questions) -> None:
    """Ask for feedback on what a flow's method returned.

    Patches: crewai.flow.flow.Flow._request_human_feedback,
        crewai.flow.async_feedback.providers.ConsoleProvider.request_feedback
    Versions: 1.14.2 and newer
    Why: A run has no terminal: the engine would read from a closed standard input.
    Test: tests/runners/human_input/test_questions.py::
        test_a_flow_cancelled_at_a_question_asks_again_when_resumed
    """
    engine: Any = Flow
    provider: Any = ConsoleProvider

    def in_flow(
        self: Any, message: str, output: Any, metadata: Any = None, emit: Any = None, **named: Any
    ) -> str:
        method = str(named.get("method_name") or _running_method())
        return _feedback_on_output(questions, self, method, message, output, emit)

    def in_console(self: Any, context: PendingFeedbackContext, flow: Any) -> str:
        return feedback_for(questions, context, flow)

    engine._request_human_feedback = in_flow
    provider.request_feedback = in_console


def feedback_for(questions: Questions, context: PendingFeedbackContext, flow: Any) -> str:
    """Return a person's feedback on what the engine passes to its feedback providers."""
    method = str(context.method_name)
    return _feedback_on_output(
        questions, flow, method, context.message, context.method_output, context.emit, context.default_outcome
    )


def _feedback_on_output(
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
    default_outcome = default_outcome or getattr(feedback_config(flow, method), "default_outcome", None)
    empty_means = str(default_outcome or choices[0]) if choices else ""
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


def feedback_config(flow: Any, method: str) -> Any:
    """Return the arguments of the method's ``@human_feedback``, or None. Versions keep them differently."""
    methods = getattr(getattr(flow, "_definition", None), "methods", None) or {}
    defined = getattr(methods.get(method), "human_feedback", None)
    return defined or getattr(flow._methods.get(method), "__human_feedback_config__", None)


def _running_method() -> str:
    """Return the name of the flow's method that is running, if the engine knows it."""
    return str(current_flow_method_name.get("") or "")


def ask_for_flow_input(questions: Questions) -> None:
    """Ask a flow's own questions (``Flow.ask``).

    Patches: crewai.flow.async_feedback.providers.ConsoleProvider.request_input, crewai.flow.flow.Flow.ask
    Versions: 1.14.2 and newer
    Why: A run has no terminal. ``Flow.ask`` is patched as well, to withdraw a question whose timeout passed.
    Test: tests/runners/human_input/test_questions.py::test_a_flow_asks_its_question_and_for_feedback
    """
    provider: Any = ConsoleProvider
    engine: Any = Flow
    ask: Callable[..., Any] = engine.ask

    def request_input(self: Any, message: str, flow: Any, metadata: Any = None) -> str | None:
        try:
            asker = (id(flow), message)
            return questions.ask("text_input", message, asker=asker, method=_running_method()).strip()
        except Withdrawn:
            return None

    @functools.wraps(ask)
    def asked(self: Any, message: str, timeout: float | None = None, *rest: Any, **named: Any) -> Any:
        try:
            return ask(self, message, timeout, *rest, **named)
        finally:
            if timeout is not None:
                questions.withdraw((id(self), message))

    provider.request_input = request_input
    engine.ask = asked


def route_by_chosen_outcome() -> None:
    """Route a flow by an outcome that a person chose, without asking a model what the answer means.

    That is the outcome that the first line of an answer names. If it names none, the model is asked.

    Patches: crewai.flow.flow.Flow._collapse_to_outcome
    Versions: 1.14.2 and newer
    Why: The engine asks a model to map every answer to an outcome, which costs a call, and may map a chosen
        outcome to another one.
    Test: tests/runners/human_input/test_questions.py::test_a_provider_that_would_pause_the_flow_is_answered
    """
    engine: Any = Flow
    collapse: Callable[..., str] = engine._collapse_to_outcome

    def chosen(self: Any, feedback: str, outcomes: Any, llm: Any) -> str:
        first = feedback.strip().partition("\n")[0].strip().lower()
        exact = [one for one in outcomes if str(one).lower() == first]
        return str(exact[0]) if exact else collapse(self, feedback=feedback, outcomes=outcomes, llm=llm)

    engine._collapse_to_outcome = chosen


def ask_instead_of_pausing(questions: Questions) -> None:
    """Ask for feedback when a feedback provider of the project would pause the flow.

    The provider of the flow configuration is patched now, that of each method when it is resolved.

    Patches: crewai.flow.flow.Flow._resolve_feedback_provider, request_feedback of the project's provider
        classes
    Versions: 1.14.2 and newer; 1.14 keeps the providers in the methods, not in _resolve_feedback_provider
    Why: A paused flow ends its run. Nothing would resume it, as the engine expects the project to do that.
    Test: tests/runners/human_input/test_questions.py::test_a_provider_that_would_pause_the_flow_is_answered
    """
    engine: Any = Flow
    if flow_config.hitl_provider is not None:
        _patch_provider(type(flow_config.hitl_provider), questions)
    if not hasattr(engine, "_resolve_feedback_provider"):
        return
    resolve = engine._resolve_feedback_provider

    def resolved(self: Any, definition: Any) -> Any:
        provider = resolve(self, definition)
        if provider is not None:
            _patch_provider(type(provider), questions)
        return provider

    engine._resolve_feedback_provider = resolved


def ask_instead_of_pausing_in_methods(flow: Any, questions: Questions) -> None:
    """Ask for feedback when a provider that a flow's method keeps would pause the flow.

    Patches: request_feedback of the project's provider classes
    Versions: 1.14.2 and newer; only 1.14 keeps the providers in the methods
    Why: A paused flow ends its run, and nothing would resume it.
    Test: tests/runners/human_input/test_questions.py::test_a_provider_that_would_pause_the_flow_is_answered
    """
    for method in flow._methods.values():
        config: Any = getattr(method, "__human_feedback_config__", None)
        if config is not None and config.provider is not None:
            _patch_provider(type(config.provider), questions)


def _patch_provider(provider: Any, questions: Questions) -> None:
    """Make a provider class ask through ``questions`` instead of pausing the flow."""
    original = provider.request_feedback
    if provider is ConsoleProvider or hasattr(original, "is_patched"):
        return

    async def awaited(pending: Any, context: Any, flow: Any) -> Any:
        try:
            return await pending
        except HumanFeedbackPending:
            return await asyncio.to_thread(feedback_for, questions, context, flow)

    @functools.wraps(original)
    def request_feedback(self: Any, context: PendingFeedbackContext, flow: Any) -> Any:
        try:
            given = original(self, context, flow)
        except HumanFeedbackPending:
            return feedback_for(questions, context, flow)
        return awaited(given, context, flow) if inspect.iscoroutine(given) else given

    request_feedback.is_patched = True  # type: ignore[attr-defined]
    provider.request_feedback = request_feedback
