"""Messages of the CrewAI runner. The runner reads this file by its path, so it imports nothing."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
    "crewai.agent_input_missing": _(
        "A lone agent has to be asked something: give it as the input %(input)r."
    ),
    "crewai.agent_input_unknown": _(
        "The checkpoint does not say what the agent was asked: give it as the input %(input)r."
    ),
    "crewai.agent_names_former_input": _(
        "The agent %(role)r still speaks of the former %(input)s: the checkpoint keeps no "
        "template of it. Name the crew's entry point to have it said anew."
    ),
    "crewai.agent_other_input": _("A lone agent has one input, %(input)r: there is no %(other)r."),
    "crewai.cache_agent_failed": _(
        "The prompt cache was not warmed for the agent %(role)r: %(kind)s: %(error)s"
    ),
    "crewai.cache_custom_model": _(
        "The prompt cache was not warmed for the agent %(role)r: its model is a class of its own."
    ),
    "crewai.cache_failed": _("The prompt cache was not warmed: %(kind)s: %(error)s"),
    "crewai.cache_no_system_prompt": _(
        "The prompt cache was not warmed for the agent %(role)r: it has no system prompt."
    ),
    "crewai.cache_shared_failed": _(
        "The prompt cache was not warmed for what the agents have in common: %(kind)s: %(error)s"
    ),
    "crewai.cache_timed_out": _(
        "The prompt cache was not warmed within %(seconds)s seconds: the run goes on."
    ),
    "crewai.cache_too_few_agents": _("The prompt cache was not warmed: fewer than two agents are called."),
    "crewai.checkpoint_replaced": _(
        "Where this run wrote a checkpoint, something else stands by now: it stays."
    ),
    "crewai.declaration_needs_newer_version": _(
        "CrewAI %(version)s cannot read %(entry_point)s: that needs 1.15 or newer."
    ),
    "crewai.entry_point_failed": _("The entry point %(entry_point)s fails: %(kind)s: %(error)s"),
    "crewai.entry_point_file_missing": _("The project has no file %(entry_point)s."),
    "crewai.entry_point_not_agent": _("The entry point %(entry_point)s gives no agent, but a %(found)s."),
    "crewai.entry_point_not_crew": _("The entry point %(entry_point)s gives no crew, but a %(found)s."),
    "crewai.entry_point_not_flow": _("The entry point %(entry_point)s gives no flow, but a %(found)s."),
    "crewai.flow_needs_entry_point": _(
        "A flow needs its own code. Name its entry point, such as module:MyFlow or flow.yaml."
    ),
    "crewai.flow_state_does_not_fit": _("The flow's state does not fit: %(error)s"),
    "crewai.function_not_stored": _(
        "A checkpoint cannot hold the function %(name)s, only its name: to go on from one, name "
        "the entry point, so that the function comes from the project's own code."
    ),
    "crewai.inner_crew_continues": _(
        "The crew %(name)s inside the flow goes on where it was: its finished tasks are kept (%(positions)s)."
    ),
    "crewai.inner_crew_restarts": _(
        "A crew inside the flow was under way: the state was edited, so it runs from its start."
    ),
    "crewai.inputs_missing": _("The crew's texts ask for inputs that were not given: %(inputs)s."),
    "crewai.kickoff_hook_failed": _(
        "The crew's own hook %(name)s, which runs before each kickoff, fails with the inputs that"
        " it has once made itself: %(kind)s: %(error)s. Let it take them as they are."
    ),
    "crewai.memory_not_in_checkpoint": _(
        "The crew's memory is no part of a checkpoint: it also holds what was remembered after this one."
    ),
    "crewai.model_agent_ambiguous": _(
        "A model was chosen for the agent %(name)r, and several could be meant."
    ),
    "crewai.model_agent_unknown": _(
        "A model was chosen for the agent %(agent)r, whom nothing here has. Choose again."
    ),
    "crewai.model_unusable": _("The model %(model)r cannot be used here: %(kind)s: %(error)s"),
    "crewai.no_lone_agent_declared": _(
        "The entry point %(entry_point)s declares no agent that runs by itself."
    ),
    "crewai.not_installed": _("CrewAI is not installed in the project's environment (%(python)s)."),
    "crewai.not_restored": _(
        "Not restored from the checkpoint, which could name anything: %(lost)s. Name the crew's "
        "entry point to have them from the project's own code."
    ),
    "crewai.output_does_not_fit": _("The new output of task %(position)s does not fit: %(error)s"),
    "crewai.pruning_failed": _("An older checkpoint of this run could not be removed: %(error)s"),
    "crewai.skipped_tasks_run": _(
        "Tasks that the run had passed over will run: %(positions)s. The checkpoint does not keep"
        " conditions: name the crew's entry point, whose tasks have theirs."
    ),
    "crewai.skipped_tasks_stay_skipped": _(
        "Tasks that the run had passed over are passed over: %(positions)s. The checkpoint does "
        "not keep conditions: name the crew's entry point, whose tasks have theirs."
    ),
    "crewai.step_not_shown": _("A step could not be shown: %(kind)s: %(error)s"),
    "crewai.task_links_unknown": _(
        "The checkpoint does not say which outputs these tasks read: %(positions)s. All before "
        "them are given. Name the crew's entry point to keep the links between its tasks."
    ),
    "crewai.unknown_checkpoint_events": _(
        "The project's version of CrewAI writes no checkpoints at these events, which it does not"
        " know: %(unknown)s. Choose others."
    ),
    "crewai.version_too_old": _(
        "The project's environment has CrewAI %(version)s, which cannot fork and writes no "
        "parents into its checkpoints. Install %(oldest)s or newer: %(python)s -m pip install -U "
        "crewai"
    ),
}
