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
    # Messages of the CrewAI runner about restoring a checkpoint. It reads this file by its path.
    "crewai.agent_role_ambiguous": _(
        "The checkpoint's agent %(position)s, “%(title)s”: several agents of the project have this role."
    ),
    "crewai.agent_role_unknown": _(
        "The checkpoint's agent %(position)s, “%(title)s”: no agent of the project has this role."
    ),
    "crewai.cannot_restore": _("This version of CrewAI cannot restore the checkpoint (%(reasons)s)."),
    "crewai.cannot_restore_without_entry_point": _(
        "This version of CrewAI cannot restore the checkpoint (%(reasons)s). Name the entry point: with "
        "the project's code, less has to be restored."
    ),
    "crewai.checkpoint_deleted": _(
        "The checkpoint %(checkpoint)s no longer exists at its location: it was deleted after this run "
        "was requested. Nothing has run. Start from another checkpoint, or fork or resume this one again, "
        "which uses its stored copy."
    ),
    "crewai.checkpoint_unreadable": _("The checkpoint %(source)s cannot be read: %(error)s"),
    "crewai.foreign_database": _("%(path)s is now a different database, without a table of checkpoints."),
    "crewai.location_is_link": _(
        "The location %(path)s now leads to %(place)s. Add that path as a location."
    ),
    "crewai.losses_not_accepted": _(
        "Nothing has run: these components would be lost, and nobody has accepted that: %(parts)s."
        " Accept the losses in the form or with --accept-losses, or name an entry point that has the"
        " components."
    ),
    "crewai.match_choices": _("Choose in the form, or pass --match %(asked)s=… with one of: %(choices)s."),
    "crewai.match_gone": _("If it was removed, choose that in the form, or pass --match %(asked)s=%(gone)s."),
    "crewai.model_address_unknown": _(
        "The checkpoint's model is served at %(address)s, which the project's environment does "
        "not name. Set %(variable)s in its environment file, or name the crew's entry point."
    ),
    "crewai.no_agent": _("This checkpoint holds no agent."),
    "crewai.no_crew": _("This checkpoint holds no crew."),
    "crewai.no_flow": _("This checkpoint holds no flow."),
    "crewai.no_task_left": _(
        "The checkpoint's task %(position)s, “%(title)s”, has not finished, and no task of the project is "
        "left to match it."
    ),
    "crewai.not_a_checkpoint": _("%(source)s is not a checkpoint."),
    "crewai.output_not_json": _("Task %(position)s returns JSON, but the new text is not JSON: %(error)s"),
    "crewai.output_not_json_object": _(
        "Task %(position)s returns a JSON object, but the new text is not one."
    ),
    "crewai.output_of_unfinished_task": _("Task %(position)s has not finished: it has no output to edit."),
    "crewai.plan_outdated": _("The checkpoint's tasks differ from the plan. Create the plan again."),
    "crewai.project_agent_chosen_twice": _(
        "The project's agent %(twice)r was chosen for two agents of the checkpoint."
    ),
    "crewai.project_crew_differs": _(
        "The crew of %(entry_point)s differs from the checkpoint's, and some of it has no certain match. "
        "%(questions)s"
    ),
    "crewai.project_task_chosen_twice": _(
        "The project's task %(twice)r was chosen for two tasks of the checkpoint."
    ),
    "crewai.removed_task_cannot_rerun": _(
        "Task %(position)s is no longer in the project, so it cannot run again."
    ),
    "crewai.result_class_unknown": _(
        "The checkpoint does not hold the class of the result of %(method)s: methods that read it receive "
        "a dictionary. Annotate what %(method)s returns (-> ThatClass) to restore it."
    ),
    "crewai.result_does_not_fit": _(
        "The result of %(method)s does not fit %(type)s, which the flow's annotations name: methods that "
        "read it receive the stored values."
    ),
    "crewai.sqlite_too_old": _(
        "This project's Python has SQLite %(version)s, and CrewAI's SQLite stores need 3.45 or "
        "newer. Install pysqlite3 into the project's environment: %(python)s -m pip install "
        "pysqlite3"
    ),
    "crewai.store_unreadable": _("%(path)s cannot be read as a checkpoint store: %(error)s"),
    "crewai.stored_copy_needs_entry_point": _(
        "This checkpoint was pruned, and its stored copy lacks what was redacted. Name the entry point: "
        "then keys and components come from the project's code."
    ),
    "crewai.task_agent_differs": _(
        "The checkpoint's task %(position)s, “%(title)s”: another agent performs it in the project."
    ),
    "crewai.task_needs_match": _(
        "The task “%(title)s” has not finished: match it to one of the project's tasks."
    ),
    "crewai.task_order_differs": _(
        "The checkpoint's task %(position)s, “%(title)s”: it has another position in the project."
    ),
    "crewai.task_text_ambiguous": _(
        "The checkpoint's task %(position)s, “%(title)s”: several tasks of the project have this text."
    ),
    "crewai.task_text_unknown": _(
        "The checkpoint's task %(position)s, “%(title)s”: no task of the project has this text."
    ),
    "crewai.tool_is_function": _(
        "The tool %(tool)s is a function, which a checkpoint cannot hold. Name the crew's entry point: "
        "then its tools come from the project's code."
    ),
    "crewai.tool_not_in_project": _(
        "The tool %(tool)s is outside the project's folder, so it is not imported for a checkpoint. Name "
        "the crew's entry point: then its tools come from the project's code."
    ),
    "crewai.unknown_project_agent": _("The project has no agent %(unknown)r."),
    "crewai.unknown_project_task": _("The project has no task %(unknown)r."),
}
