"""Messages of the CrewAI runner. The runner reads this file by its path, so it imports nothing."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
    "crewai.agent_input_missing": _("A standalone agent needs a prompt: set the input %(input)r."),
    "crewai.agent_input_unknown": _(
        "The checkpoint does not hold the agent's prompt: set the input %(input)r."
    ),
    "crewai.agent_names_former_input": _(
        "The texts of the agent %(role)r still contain the former %(input)s: the checkpoint holds no "
        "template of them. Name the crew's entry point to fill in the new value."
    ),
    "crewai.agent_other_input": _("A standalone agent has one input, %(input)r. It has no input %(other)r."),
    "crewai.cache_agent_failed": _(
        "The prompt cache was not warmed up for the agent %(role)r: %(kind)s: %(error)s"
    ),
    "crewai.cache_custom_model": _(
        "The prompt cache was not warmed up for the agent %(role)r: its model is a custom class."
    ),
    "crewai.cache_failed": _("The prompt cache was not warmed up: %(kind)s: %(error)s"),
    "crewai.cache_no_system_prompt": _(
        "The prompt cache was not warmed up for the agent %(role)r: it has no system prompt."
    ),
    "crewai.cache_shared_failed": _(
        "The prompt cache was not warmed up for the agents' common prefix: %(kind)s: %(error)s"
    ),
    "crewai.cache_timed_out": _(
        "The prompt cache was not warmed up within %(seconds)s seconds. The run continues."
    ),
    "crewai.cache_too_few_agents": _("The prompt cache was not warmed up: fewer than two agents are called."),
    "crewai.checkpoint_replaced": _(
        "A checkpoint of this run was replaced at its location. The replacement was not deleted."
    ),
    "crewai.declaration_needs_newer_version": _(
        "CrewAI %(version)s cannot read %(entry_point)s, which needs 1.15 or newer."
    ),
    "crewai.entry_point_failed": _("The entry point %(entry_point)s fails: %(kind)s: %(error)s"),
    "crewai.entry_point_file_missing": _("The project has no file %(entry_point)s."),
    "crewai.entry_point_not_agent": _("The entry point %(entry_point)s provides a %(found)s, not an agent."),
    "crewai.entry_point_not_crew": _("The entry point %(entry_point)s provides a %(found)s, not a crew."),
    "crewai.entry_point_not_flow": _("The entry point %(entry_point)s provides a %(found)s, not a flow."),
    "crewai.flow_needs_entry_point": _(
        "A flow needs its code. Name its entry point, such as module:MyFlow or flow.yaml."
    ),
    "crewai.flow_state_does_not_fit": _("The flow's state is invalid: %(error)s"),
    "crewai.function_not_stored": _(
        "A checkpoint stores only the name of the function %(name)s. Name the entry point, so that the "
        "function comes from the project's code."
    ),
    "crewai.inner_crew_continues": _(
        "The crew %(name)s inside the flow continues: its finished tasks are kept (%(positions)s)."
    ),
    "crewai.inner_crew_restarts": _(
        "A crew inside the flow was running. The state was edited, so the crew runs from its start."
    ),
    "crewai.inputs_missing": _("The crew's texts use inputs that have no value: %(inputs)s."),
    "crewai.kickoff_hook_failed": _(
        "The crew's hook %(name)s, which runs before each kickoff, fails with inputs that it has already "
        "processed: %(kind)s: %(error)s. Change it to accept them unchanged."
    ),
    "crewai.memory_not_in_checkpoint": _(
        "The crew's memory is not part of a checkpoint: it also holds what was stored after this one."
    ),
    "crewai.model_agent_ambiguous": _("A model was chosen for the agent %(name)r, but several agents match."),
    "crewai.model_agent_unknown": _(
        "A model was chosen for the agent %(agent)r, which does not exist here. Choose again."
    ),
    "crewai.model_unusable": _("The model %(model)r cannot be used here: %(kind)s: %(error)s"),
    "crewai.no_lone_agent_declared": _("The entry point %(entry_point)s declares no standalone agent."),
    "crewai.not_installed": _("CrewAI is not installed in the project's environment (%(python)s)."),
    "crewai.not_restored": _(
        "Not restored, because a checkpoint can name anything: %(lost)s. Name the crew's entry point to "
        "use those of the project's code."
    ),
    "crewai.output_does_not_fit": _("The new output of task %(position)s is invalid: %(error)s"),
    "crewai.pruning_failed": _("An older checkpoint of this run could not be removed: %(error)s"),
    "crewai.skipped_tasks_run": _(
        "Tasks that the run had skipped will run: %(positions)s. A checkpoint holds no conditions: name "
        "the crew's entry point, whose tasks have them."
    ),
    "crewai.skipped_tasks_stay_skipped": _(
        "Tasks that the run had skipped stay skipped: %(positions)s. A checkpoint holds no conditions: "
        "name the crew's entry point, whose tasks have them."
    ),
    "crewai.step_not_shown": _("A step could not be shown: %(kind)s: %(error)s"),
    "crewai.task_links_unknown": _(
        "The checkpoint does not say which outputs these tasks read: %(positions)s. They receive the "
        "outputs of all earlier tasks. Name the crew's entry point to keep the links between its tasks."
    ),
    "crewai.unknown_checkpoint_events": _(
        "The project's version of CrewAI does not know these events, so it writes no checkpoints at them: "
        "%(unknown)s. Choose others."
    ),
    "crewai.version_too_old": _(
        "The project's environment has CrewAI %(version)s, which cannot fork and does not record parents. "
        "Install %(oldest)s or newer: %(python)s -m pip install -U crewai"
    ),
}
