"""Ask for the review of a task's output (``human_input``) through the spool instead of the terminal.

Patches: crewai.core.providers.human_input.SyncHumanInputProvider.handle_feedback and handle_feedback_async
Versions: 1.14.2 and newer
Why: A run has no terminal. The class is patched, because a provider that is set for a context does not reach
    tasks in other threads.
Test: quality/compatibility/rows/questions.py::human_input
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crewai.core.providers.human_input import SyncHumanInputProvider

from forkline_crewai.human_input.output_review import ask_about_output, restart_with

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions


def apply(questions: Questions) -> None:
    """Ask through ``questions`` until a person accepts the output."""

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
