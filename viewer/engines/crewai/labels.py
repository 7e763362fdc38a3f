"""What a person runs with CrewAI, and labels of the events at which it writes a checkpoint."""

from viewer.engines.crewai.editing import PROMPT
from viewer.engines.crewai.recorded_events import FAILED
from viewer.engines.entry_points import EventPreset, RootKind
from viewer.messages.marking import gettext_noop as _

# What a person runs with CrewAI: a crew, a flow, or an agent alone.


CREW = RootKind(
    name="crew",
    label=_("crew"),
    unit_label=_("task"),
    units_label=_("tasks"),
    can_rerun=True,
    can_hold=True,
    has_models=True,
    can_warm_cache=True,
    new_run=_("All tasks of the crew run in order. Each calls models."),
    can_edit_outputs=True,
    needs_all_inputs=True,
    entry_point_hint=_(
        "Guardrails, callbacks, conditions and links between tasks are not in a checkpoint. "
        "They come from this entry point."
    ),
    usual_events="task",
    event_presets=(
        EventPreset(_("every finished task"), ("task_completed",)),
        EventPreset(_("every start and end of a task"), ("task_started", "task_completed", "task_failed")),
        EventPreset(_("the end of the run"), ("crew_kickoff_completed", "crew_kickoff_failed")),
    ),
)
FLOW = RootKind(
    name="flow",
    label=_("flow"),
    unit_label=_("method"),
    units_label=_("methods"),
    is_open_ended=True,
    has_state=True,
    needs_entry_point=_("A flow needs its code: choose its entry point, or add it to the project."),
    inputs_label=_("Initial state"),
    new_run=_("The flow runs from its start. Its state decides which methods run and call models."),
    usual_events="flow",
    event_presets=(
        EventPreset(_("every finished method"), ("method_execution_finished",)),
        EventPreset(_("every finished method and task"), ("method_execution_finished", "task_completed")),
        EventPreset(_("the end of the run"), ("flow_finished",)),
    ),
    no_steps=_("No method has finished yet. The flow's source decides what runs."),
    last_trigger="method_execution_finished",
)
AGENT = RootKind(
    name="agent",
    label=_("agent"),
    unit_label=_("task"),
    units_label=_("tasks"),
    can_rerun=True,
    has_models=True,
    can_add_inputs=False,
    prompt=PROMPT,
    inputs_label=_("Prompt"),
    new_run=_("The agent receives the prompt, and calls its model and tools until it answers."),
    usual_events="agent",
    event_presets=(
        EventPreset(
            _("the end of the run"), ("lite_agent_execution_completed", "lite_agent_execution_error")
        ),
    ),
)
KINDS = {kind.name: kind for kind in (CREW, FLOW, AGENT)}


# English labels of the events at which CrewAI writes a checkpoint, and of the runner's events.


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
