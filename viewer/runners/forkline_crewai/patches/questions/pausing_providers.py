"""Ask for feedback through the spool when a feedback provider of the project would pause the flow.

Patches: crewai.flow.flow.Flow._resolve_feedback_provider, request_feedback of the project's provider classes
Versions: 1.14.2 and newer; 1.14 keeps the providers in the methods, not in _resolve_feedback_provider
Why: A paused flow ends its run. Nothing would resume it, as the engine expects the project to do that.
Test: tests/runners/human_input/test_questions.py::test_a_provider_that_would_pause_the_flow_is_answered
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any

from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai.flow.flow import Flow
from crewai.flow.flow_config import flow_config

from forkline_crewai.human_input.feedback import feedback_for

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from forkline_runner.reporting import Questions


def apply(questions: Questions) -> None:
    """Patch the provider of the flow configuration now, and that of each method when it is resolved."""
    engine: Any = Flow
    if flow_config.hitl_provider is not None:
        patch_provider(type(flow_config.hitl_provider), questions)
    if not hasattr(engine, "_resolve_feedback_provider"):
        return
    resolve = engine._resolve_feedback_provider

    def resolved(self: Any, definition: Any) -> Any:
        provider = resolve(self, definition)
        if provider is not None:
            patch_provider(type(provider), questions)
        return provider

    engine._resolve_feedback_provider = resolved


def apply_to_methods(flow: Any, questions: Questions) -> None:
    """Patch the providers that engines without _resolve_feedback_provider keep in a flow's methods."""
    for method in flow._methods.values():
        config: Any = getattr(method, "__human_feedback_config__", None)
        if config is not None and config.provider is not None:
            patch_provider(type(config.provider), questions)


def patch_provider(provider: Any, questions: Questions) -> None:
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
