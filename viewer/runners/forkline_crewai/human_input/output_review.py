"""Has a person look over a task's answer, as ``human_input`` wants it, until nothing is to be better."""

from __future__ import annotations

import asyncio
from typing import Any

from crewai.core.providers.human_input import SyncHumanInputProvider
from crewai.utilities.agent_utils import format_message_for_llm
from crewai.utilities.i18n import I18N_DEFAULT

from forkline_runner.questions import Questions, as_text


def ask_about_tasks(questions: Questions) -> None:
    """Ask through these questions from now on, where the engine's own provider would ask at a terminal."""

    # On the provider's class: what is set for a context does not reach tasks in other threads.
    def handle(self: Any, answer: Any, context: Any) -> Any:
        while context.ask_for_human_input:
            words = _about_task(questions, answer, context)
            if not words.strip():
                context.ask_for_human_input = False
            elif hasattr(context, "_invoke_loop"):
                context.messages.append(context._format_feedback_message(words))
                answer = context._invoke_loop()
            else:
                _take_in(words, context)
                context.kickoff()
                answer = context.state.current_answer
        return answer

    async def handle_async(self: Any, answer: Any, context: Any) -> Any:
        while context.ask_for_human_input:
            words = await asyncio.to_thread(_about_task, questions, answer, context)
            if not words.strip():
                context.ask_for_human_input = False
            elif hasattr(context, "_ainvoke_loop"):
                context.messages.append(context._format_feedback_message(words))
                answer = await context._ainvoke_loop()
            else:
                _take_in(words, context)
                await context.kickoff_async()
                answer = context.state.current_answer
        return answer

    provider: Any = SyncHumanInputProvider
    provider.handle_feedback, provider.handle_feedback_async = handle, handle_async


def _about_task(questions: Questions, answer: Any, context: Any) -> str:
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


def _take_in(words: str, executor: Any) -> None:
    """Ready an executor for another round, in versions whose executors for this cannot begin one."""
    state = executor.state
    state.messages.append(
        format_message_for_llm(I18N_DEFAULT.slice("feedback_instructions").format(feedback=words))
    )
    executor._finalize_called = False
    state.current_answer, state.is_finished, state.iterations = None, False, 0
    state.use_native_tools, state.pending_tool_calls = False, []
    state.plan, state.plan_ready, state.todos = None, False, type(state.todos)()
    state.replan_count, state.last_replan_reason = 0, None
    state.observations, state.execution_log = {}, []
