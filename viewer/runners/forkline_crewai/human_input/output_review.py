"""The review of a task's output by a person, as the task's ``human_input`` requests it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai.utilities.agent_utils import format_message_for_llm
from crewai.utilities.i18n import I18N_DEFAULT

from forkline_runner.reporting import as_text

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions


def ask_about_output(questions: Questions, answer: Any, context: Any) -> str:
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


def restart_with(feedback: str, executor: Any) -> None:
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
