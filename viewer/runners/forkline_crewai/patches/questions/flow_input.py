"""Ask a flow's own questions (``Flow.ask``) through the spool instead of the terminal.

Patches: crewai.flow.async_feedback.providers.ConsoleProvider.request_input, crewai.flow.flow.Flow.ask
Versions: 1.14.2 and newer
Why: A run has no terminal. ``Flow.ask`` is patched as well, to withdraw a question whose timeout passed.
Test: tests/runners/human_input/test_questions.py::test_a_flow_asks_its_question_and_for_feedback
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.flow import Flow

from forkline_crewai.human_input.feedback import running_method
from forkline_runner.reporting import Withdrawn

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions


def apply(questions: Questions) -> None:
    """Ask a person through ``questions``."""
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
