"""What made the engine write a checkpoint: its shape in the lineage, and in words."""

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines.crewai.contents.events import FAILED
from viewer.lineage.drawing import Shape
from viewer.models import Checkpoint

# The end of the whole run; a lone agent's run is its only task.
ENDS = frozenset(
    {"crew_kickoff_completed", "flow_finished", "lite_agent_execution_completed", "agent_execution_completed"}
)
WORDS: dict[str, str | Promise] = {
    "": _("written on request"),
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


def trigger_words(trigger: str) -> str:
    """The trigger in words; an unknown one as the engine writes it, without underscores."""
    return str(WORDS[trigger]) if trigger in WORDS else trigger.replace("_", " ")


def written_words(trigger: str, branch: str, parent_branch: str | None) -> str:
    """Why a checkpoint was written. A fork writes its first one by itself, on a branch that is new."""
    if not trigger and parent_branch not in (None, branch):
        return gettext("forked")
    return trigger_words(trigger)


def is_failure(trigger: str) -> bool:
    return trigger.endswith(FAILED)


def shape_of(trigger: str) -> Shape:
    """Filled is finished work, hollow a start, a tick the end of a run, a cross a failure."""
    if is_failure(trigger):
        return "failure"
    if trigger in ENDS:
        return "end"
    return "start" if trigger.endswith("_started") else "done"


def title_of(checkpoint: Checkpoint) -> str:
    """A checkpoint in half a sentence: ``task 2 of 4 completed``."""
    done, total = checkpoint.tasks_done, checkpoint.tasks_total
    numbers = {"done": done, "next": min(done + 1, total), "total": total}
    if not checkpoint.trigger and checkpoint.parent:
        return written_words("", checkpoint.branch, checkpoint.parent.branch)
    if not total or checkpoint.entity != "crew":
        return trigger_words(checkpoint.trigger)
    if checkpoint.trigger == "task_completed":
        return gettext("task %(done)s of %(total)s completed") % numbers
    if checkpoint.trigger == "task_started":
        return gettext("task %(next)s of %(total)s started") % numbers
    if checkpoint.trigger == "task_failed":
        return gettext("task %(next)s of %(total)s failed") % numbers
    return trigger_words(checkpoint.trigger)
