"""Ask for a flow's feedback through the spool instead of the terminal.

Patches: crewai.flow.flow.Flow._request_human_feedback,
    crewai.flow.async_feedback.providers.ConsoleProvider.request_feedback
Versions: 1.14.2 and newer
Why: A run has no terminal: the engine would read from a closed standard input.
Test: tests/runners/human_input/test_questions.py::test_a_flow_cancelled_at_a_question_asks_again_when_resumed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.flow import Flow

from forkline_crewai.human_input.feedback import feedback, feedback_for, running_method

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from forkline_runner.reporting import Questions


def apply(questions: Questions) -> None:
    """Ask a person through ``questions``."""
    engine: Any = Flow
    provider: Any = ConsoleProvider

    def in_flow(
        self: Any, message: str, output: Any, metadata: Any = None, emit: Any = None, **named: Any
    ) -> str:
        method = str(named.get("method_name") or running_method())
        return feedback(questions, self, method, message, output, emit)

    def in_console(self: Any, context: PendingFeedbackContext, flow: Any) -> str:
        return feedback_for(questions, context, flow)

    engine._request_human_feedback = in_flow
    provider.request_feedback = in_console
