"""What a person runs with CrewAI, and labels of its events and of what a preflight check finds."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.crewai.planning import PROMPT
from viewer.engines.crewai.recorded_events import STATE, WAITING
from viewer.engines.entry_points import GONE, Component, EventPreset, PreflightLabels, RootKind
from viewer.engines.protocol import KnownStore
from viewer.messages.catalog import gettext_noop as _

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
FLOW_STATE = RootKind(
    name=STATE,
    label=_("flow state"),
    unit_label=_("method"),
    units_label=_("methods"),
    starts_new_runs=False,
    is_open_ended=True,
    has_state=True,
    needs_entry_point=FLOW.needs_entry_point,
    forks_on_copy=True,
    fork_targets=(
        ("scratch", _("Keep as a draft (in Forkline only)")),
        ("new-thread", _("A new flow at the location")),
    ),
    publishes_at_end=False,
    published_hint=_("Other flows do not change. The new flow has the states of the fork."),
    run_label=_("Flow"),
    published_name=_("Id of the new flow"),
    published_name_hint=_("The id of its state, by which your program restores it."),
    needs_source=True,
    target_on_other_host="new-thread",
    resumes_last_only=True,
    resumes_only_answered=True,
    no_steps=_("The flow's source decides what runs."),
    last_trigger="method_execution_finished",
)
KINDS = {kind.name: kind for kind in (CREW, FLOW, AGENT, FLOW_STATE)}
KNOWN_STORES = (
    KnownStore(_("CrewAI checkpoints"), ".checkpoints"),
    KnownStore(_("CrewAI checkpoints"), ".checkpoints.db"),
    # Where ``@persist`` writes: the folder of ``appdirs`` for data of the project's name.
    KnownStore(_("CrewAI flow states"), "$CREWAI_STORAGE_DIR/flow_states.db"),
    KnownStore(_("CrewAI flow states"), "$XDG_DATA_HOME/*/flow_states.db"),
    KnownStore(_("CrewAI flow states"), "~/.local/share/*/flow_states.db"),
    KnownStore(_("CrewAI flow states"), "~/Library/Application Support/*/flow_states.db"),
    KnownStore(_("CrewAI flow states"), "flow_states.db"),
)


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
    # Rare: some versions only define them, and write no checkpoint at them.
    "task_evaluation": _("task evaluated"),
    "crew_train_started": _("training of the crew started"),
    "crew_train_completed": _("training of the crew completed"),
    "crew_train_failed": _("training of the crew failed"),
    "crew_test_started": _("test of the crew started"),
    "crew_test_completed": _("test of the crew completed"),
    "crew_test_failed": _("test of the crew failed"),
    "crew_test_result": _("result of a test of the crew"),
    "agent_evaluation_started": _("evaluation of the agent started"),
    "agent_evaluation_completed": _("evaluation of the agent completed"),
    "agent_evaluation_failed": _("evaluation of the agent failed"),
    "flow_created": _("flow created"),
    "flow_paused": _("flow paused"),
    "method_execution_paused": _("method paused"),
    WAITING: _("waits for feedback"),
    "human_feedback_requested": _("feedback of a person requested"),
    "human_feedback_received": _("feedback of a person received"),
    "flow_input_requested": _("input of the flow requested"),
    "flow_input_received": _("input of the flow received"),
    "llm_thinking_chunk": _("model thought"),
    "llm_guardrail_started": _("guardrail started"),
    "llm_guardrail_completed": _("guardrail completed"),
    "llm_guardrail_failed": _("guardrail failed"),
    "tool_validate_input_error": _("tool refused its input"),
    "tool_selection_error": _("choice of a tool failed"),
    "tool_execution_error": _("tool stopped with an error"),
    "memory_save_started": _("saving to memory started"),
    "memory_save_completed": _("saved to memory"),
    "memory_save_failed": _("saving to memory failed"),
    "memory_query_started": _("query of the memory started"),
    "memory_query_completed": _("query of the memory completed"),
    "memory_query_failed": _("query of the memory failed"),
    "memory_retrieval_started": _("reading of memories for a task started"),
    "memory_retrieval_completed": _("memories for a task read"),
    "memory_retrieval_failed": _("reading of memories for a task failed"),
    "knowledge_search_query_started": _("search of the knowledge started"),
    "knowledge_search_query_completed": _("search of the knowledge completed"),
    "knowledge_search_query_failed": _("search of the knowledge failed"),
    "knowledge_query_started": _("query of the knowledge started"),
    "knowledge_query_completed": _("query of the knowledge completed"),
    "knowledge_query_failed": _("query of the knowledge failed"),
    "agent_reasoning_started": _("planning of the agent started"),
    "agent_reasoning_completed": _("planning of the agent completed"),
    "agent_reasoning_failed": _("planning of the agent failed"),
    "mcp_connection_started": _("connection to an MCP server started"),
    "mcp_connection_completed": _("connected to an MCP server"),
    "mcp_connection_failed": _("connection to an MCP server failed"),
    "mcp_tool_execution_started": _("MCP tool called"),
    "mcp_tool_execution_completed": _("MCP tool answered"),
    "mcp_tool_execution_failed": _("MCP tool failed"),
    "mcp_config_fetch_failed": _("reading of the MCP configuration failed"),
    "step_observation_started": _("observation of a step started"),
    "step_observation_completed": _("observation of a step completed"),
    "step_observation_failed": _("observation of a step failed"),
    "plan_refinement": _("plan refined"),
    "plan_replan_triggered": _("new plan requested"),
    "goal_achieved_early": _("goal reached early"),
    "skill_discovery_started": _("search for skills started"),
    "skill_discovery_completed": _("search for skills completed"),
    "skill_loaded": _("skill loaded"),
    "skill_activated": _("skill activated"),
    "skill_load_failed": _("loading of a skill failed"),
    "agent_logs_started": _("log of the agent started"),
    "agent_logs_execution": _("step of the agent logged"),
    "a2a_delegation_started": _("delegation to a remote agent started"),
    "a2a_delegation_completed": _("delegation to a remote agent completed"),
    "a2a_conversation_started": _("conversation with a remote agent started"),
    "a2a_conversation_completed": _("conversation with a remote agent completed"),
    "a2a_message_sent": _("message to a remote agent sent"),
    "a2a_response_received": _("response of a remote agent received"),
    "a2a_polling_started": _("polling of a remote agent started"),
    "a2a_polling_status": _("status of a remote agent polled"),
    "a2a_push_notification_registered": _("push notification registered"),
    "a2a_push_notification_received": _("push notification received"),
    "a2a_push_notification_sent": _("push notification sent"),
    "a2a_push_notification_timeout": _("push notification timed out"),
    "a2a_streaming_started": _("streaming of a remote agent started"),
    "a2a_streaming_chunk": _("text of a remote agent received"),
    "a2a_agent_card_fetched": _("card of a remote agent read"),
    "a2a_authentication_failed": _("login to a remote agent failed"),
    "a2a_artifact_received": _("artifact of a remote agent received"),
    "a2a_connection_error": _("connection to a remote agent failed"),
    "a2a_server_task_started": _("task for a remote client started"),
    "a2a_server_task_completed": _("task for a remote client completed"),
    "a2a_server_task_canceled": _("task for a remote client cancelled"),
    "a2a_server_task_failed": _("task for a remote client failed"),
    "a2a_parallel_delegation_started": _("delegation to several remote agents started"),
    "a2a_parallel_delegation_completed": _("delegation to several remote agents completed"),
    "a2a_transport_negotiated": _("transport with a remote agent chosen"),
    "a2a_content_type_negotiated": _("content type with a remote agent chosen"),
    "a2a_context_created": _("context of a remote conversation created"),
    "a2a_context_expired": _("context of a remote conversation expired"),
    "a2a_context_idle": _("context of a remote conversation idle"),
    "a2a_context_completed": _("context of a remote conversation completed"),
    "a2a_context_pruned": _("context of a remote conversation pruned"),
    "SIGTERM": _("program asked to end (SIGTERM)"),
    "SIGINT": _("program interrupted (SIGINT)"),
    "SIGHUP": _("terminal closed (SIGHUP)"),
    "SIGTSTP": _("program paused (SIGTSTP)"),
    "SIGCONT": _("program continued (SIGCONT)"),
    "cc_env": _("started from Claude Code"),
    "codex_env": _("started from Codex"),
    "cursor_env": _("started from Cursor"),
    "default_env": _("started from no known tool"),
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


def is_end(trigger: str) -> bool:
    """Whether a checkpoint with this trigger was written at the end of the whole run."""
    return trigger in ENDS


def is_start(trigger: str) -> bool:
    """Whether a checkpoint with this trigger was written when a unit or the run started."""
    return trigger.endswith("_started")


def numbered_label(kind: str, trigger: str) -> str:
    """A label with ``done``, ``next`` and ``total`` for a trigger of a crew's task; empty for others."""
    return NUMBERED.get(trigger, "") if kind == "crew" else ""


# The components in a preflight report of a CrewAI run, and labels of components, losses and matches.


MAX_NAME = 120

# One component of each kind.
COMPONENTS = {
    "tools": _("tool"),
    "models": _("model"),
    "callbacks": _("callback"),
    "converters": _("converter"),
    "guardrails": _("guardrail"),
    "MCP servers": _("MCP server"),
    "platform apps": _("platform app"),
    "knowledge": _("knowledge"),
    "memory": _("memory"),
    "skills": _("skill"),
    "output files": _("output file"),
    "input files": _("input file"),
    "training files": _("training file"),
    "links": _("link to other tasks"),
    "conditions": _("condition"),
    "methods": _("method"),
    "tasks": _("task"),
}
# Losses that need a whole sentence.
LOSSES = {
    "unseen": _(
        "guardrails, callbacks and conditions that are functions: a checkpoint does not record whether there "
        "were any"
    ),
    "models": _("the project's own class of the model %(name)s: a plain model of this name is used instead"),
    "links": _("which tasks it reads: it receives the outputs of all earlier tasks"),
    "conditions": _("the condition for which it was skipped"),
    "tasks": _("the project's task %(name)s does not run: the checkpoint does not have it"),
    "providers": _(
        "the model %(name)s: its provider's package is not installed in the project's environment"
    ),
    "methods": _("the finished method %(name)s: the flow's class no longer has it"),
}
# A stored task or agent whose counterpart in the project is not certain.
MATCHES = {
    "agent": _("The checkpoint's agent “%(title)s” is"),
    "task": _("The checkpoint's task %(position)d, “%(title)s”, is"),
}
MATCH_REASONS = {
    "changed": _("nothing in the project has this text"),
    "twice": _("several in the project have this text"),
    "role": _("another agent performs it in the project"),
    "order": _("it has another position in the project"),
}
NOTES = {
    "unwritten": _(
        "This version of CrewAI writes no checkpoint of such a crew (%(detail)s) unless Forkline runs "
        "it. Runs that are started here do write them; values that cannot be stored appear by their name."
    ),
    "untyped": _(
        "The checkpoint does not record the class of what the method %(detail)s returned: methods that "
        "read it get a dictionary. Annotate what %(detail)s returns (-> ThatClass) to restore it."
    ),
}
PREFLIGHT_LABELS = PreflightLabels(
    components=COMPONENTS,
    losses=LOSSES,
    of_unit=_("task %(position)d: %(text)s"),
    matches=MATCHES,
    match_reasons=MATCH_REASONS,
    numbered_matches=frozenset({"task"}),
    notes=NOTES,
)


def components_in(report: Mapping[str, Any]) -> list[Component]:
    """The components that a report lists."""
    return [_component(part) for part in report.get("components") or []]


def unmatched(report: Mapping[str, Any], answers: Mapping[str, str]) -> list[Component]:
    """The project's tasks that match no stored task, so they do not run. Empty until all are matched."""
    questions = [one for one in report.get("questions") or [] if one["kind"] == "task"]
    chosen = {answers.get(one["saved"], "") for one in questions}
    if "" in chosen:
        return []
    titles = {value: title for one in questions for value, title in one["choices"]}
    return [
        _component({"what": "tasks", "name": f"{value}. {title}"[:MAX_NAME], "fate": "lost"})
        for value, title in titles.items()
        if value != GONE and value not in chosen
    ]


def _component(part: Mapping[str, Any]) -> Component:
    unit, agent = part.get("task") or 0, part.get("agent") or ""
    owner = f"task {unit}" if unit else agent
    # forkline_crewai/components.py builds the same.
    loss_name = "/".join(str(text) for text in (part["what"], owner, part["name"]) if text)
    return Component(part["what"], part["name"], part["fate"], loss_name, unit, agent)
