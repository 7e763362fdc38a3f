"""English labels of the events at which CrewAI writes a checkpoint, and of the runner's events."""

from viewer.engines.crewai.contents.events import FAILED
from viewer.messages.marking import gettext_noop as _

# The triggers at the end of the whole run.
ENDS = frozenset(
    {"crew_kickoff_completed", "flow_finished", "lite_agent_execution_completed", "agent_execution_completed"}
)
LABELS = {
    "crew_kickoff_started": _("crew started"),
    "crew_kickoff_completed": _("crew completed"),
    "crew_kickoff_failed": _("crew failed"),
    "task_started": _("task started"),
    "task_completed": _("task completed"),
    "task_failed": _("task failed"),
    "flow_started": _("flow started"),
    "flow_finished": _("flow completed"),
    "flow_failed": _("flow failed"),
    "method_execution_started": _("method started"),
    "method_execution_finished": _("method completed"),
    "method_execution_failed": _("method failed"),
    "agent_execution_started": _("agent started"),
    "agent_execution_completed": _("agent completed"),
    "agent_execution_error": _("agent failed"),
    "lite_agent_execution_started": _("agent started"),
    "lite_agent_execution_completed": _("agent completed"),
    "lite_agent_execution_error": _("agent failed"),
    "llm_call_started": _("model called"),
    "llm_call_completed": _("model answered"),
    "llm_call_failed": _("model call failed"),
    "llm_stream_chunk": _("model wrote"),
    "tool_usage_started": _("tool called"),
    "tool_usage_finished": _("tool answered"),
    "tool_usage_error": _("tool failed"),
}
# The subjects of the runner's events of units: ``<subject>_started``, ``_completed`` and ``_failed``.
UNIT_SUBJECTS = ("task", "method")
ASKER_LABELS = {"position": _("Task %(value)s"), "method": _("Method %(value)s")}
EVENT_LABELS = {
    "task_started": _("Task %(position)s started"),
    "task_completed": _("Task %(position)s completed"),
    "task_failed": _("Task %(position)s failed"),
    "task_retried": _("Task %(position)s failed and is tried again"),
    "method_started": _("%(method)s started"),
    "method_completed": _("%(method)s completed"),
    "method_failed": _("%(method)s failed"),
}
# The field that is shown folded below the row of an event.
EVENT_DETAILS = {"task_completed": "output", "task_started": "description", "task_retried": "error"}
# Labels with the number of the trigger's unit.
NUMBERED = {
    "task_completed": _("task %(done)s of %(total)s completed"),
    "task_started": _("task %(next)s of %(total)s started"),
    "task_failed": _("task %(next)s of %(total)s failed"),
}


def is_failure(trigger: str) -> bool:
    """Whether a checkpoint with this trigger was written at a failure."""
    return trigger.endswith(FAILED)


def is_end(trigger: str) -> bool:
    """Whether a checkpoint with this trigger was written at the end of the whole run."""
    return trigger in ENDS


def is_start(trigger: str) -> bool:
    """Whether a checkpoint with this trigger was written when a unit or the run started."""
    return trigger.endswith("_started")


def numbered_label(kind: str, trigger: str) -> str:
    """A label with ``done``, ``next`` and ``total`` for a trigger of a crew's task; empty for others."""
    return NUMBERED.get(trigger, "") if kind == "crew" else ""
