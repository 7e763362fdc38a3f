"""Patches of what the engine asks a person: through the spool instead of the terminal."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai.core.providers.human_input import SyncHumanInputProvider
from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai.flow.flow import Flow
from crewai.flow.flow_config import flow_config

from forkline_crewai.human_input import (
    ask_about_output,
    feedback_for,
    feedback_on_output,
    restart_with,
    running_method,
)
from forkline_runner.reporting import Withdrawn

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
            feedback = ask_about_output(questions, answer, context)
            if not feedback.strip():
                context.ask_for_human_input = False
            elif hasattr(context, "_invoke_loop"):
                context.messages.append(context._format_feedback_message(feedback))
                answer = context._invoke_loop()
            else:
                restart_with(feedback, context)
                context.kickoff()
                answer = context.state.current_answer
        return answer

    async def handle_async(self: Any, answer: Any, context: Any) -> Any:
        while context.ask_for_human_input:
            feedback = await asyncio.to_thread(ask_about_output, questions, answer, context)
            if not feedback.strip():
                context.ask_for_human_input = False
            elif hasattr(context, "_ainvoke_loop"):
                context.messages.append(context._format_feedback_message(feedback))
                answer = await context._ainvoke_loop()
            else:
                restart_with(feedback, context)
                await context.kickoff_async()
                answer = context.state.current_answer
        return answer

    provider: Any = SyncHumanInputProvider
    provider.handle_feedback, provider.handle_feedback_async = handle, handle_async


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
        method = str(named.get("method_name") or running_method())
        return feedback_on_output(questions, self, method, message, output, emit)

    def in_console(self: Any, context: PendingFeedbackContext, flow: Any) -> str:
        return feedback_for(questions, context, flow)

    engine._request_human_feedback = in_flow
    provider.request_feedback = in_console


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
            return questions.ask("text_input", message, asker=asker, method=running_method()).strip()
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
