"""What a person runs with CrewAI: a crew, a flow, or an agent alone."""

from viewer.engines.checkpoint_events import EventPreset
from viewer.engines.crewai.planning.editing import PROMPT
from viewer.engines.root_kinds import RootKind
from viewer.messages.marking import gettext_noop as _

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
