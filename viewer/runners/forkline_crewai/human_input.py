"""What a person is asked: to review a task's output, and for feedback on what a flow's method returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.flow_events import HumanFeedbackReceivedEvent, HumanFeedbackRequestedEvent
from crewai.flow.flow_context import current_flow_method_name
from crewai.utilities.agent_utils import format_message_for_llm
from crewai.utilities.i18n import I18N_DEFAULT

from forkline_runner.reporting import as_text

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

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


def feedback_for(questions: Questions, context: PendingFeedbackContext, flow: Any) -> str:
    """Return a person's feedback on what the engine passes to its feedback providers."""
    method = str(context.method_name)
    return feedback_on_output(
        questions, flow, method, context.message, context.method_output, context.emit, context.default_outcome
    )


def feedback_on_output(
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


def running_method() -> str:
    """Return the name of the flow's method that is running, if the engine knows it."""
    return str(current_flow_method_name.get("") or "")
