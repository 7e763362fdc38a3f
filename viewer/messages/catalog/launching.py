"""Why a job does not start, how it ended, and why an edit or an answer is refused."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    # Why a job does not start, and how it ended; why a preflight check found nothing.
    "job.already_running": _("Another process already runs this job."),
    "job.checkpoints_failed": _(
        "Finished, but %(failed)d of %(total)d checkpoints could not be written: %(reason)s"
    ),
    "job.cut_off": _("The run was interrupted: its process ended without a result."),
    "job.cut_off_by_signal": _("The run was interrupted: its process ended without a result (%(name)s)."),
    "job.disk_full": _(
        "The run was interrupted: no space was left on the disk of %(path)s, so its end could not be stored."
    ),
    "job.environment_file_in_protected_folder": _(
        "The environment file is in %(cover)s, which holds checkpoints."
    ),
    "job.environment_file_missing": _("The project's environment file does not exist: %(path)s."),
    "job.environment_file_not_text": _("The project's environment file is not a text file: %(path)s."),
    "job.host_away": _(
        "A person marked it as interrupted, because its host %(host)s did not answer. It may have called"
        " models."
    ),
    "job.interpreter_in_protected_folder": _(
        "The interpreter is in %(cover)s, which holds checkpoints or Forkline's data."
    ),
    "job.interpreter_missing": _(
        "The project's interpreter does not exist: %(path)s. Create its environment, or choose another "
        "interpreter."
    ),
    "job.location_moved": _(
        "Finished, but %(failed)d of %(total)d checkpoints could not be written: the location was"
        " renamed, replaced or removed while the run wrote there."
    ),
    "job.never_started": _("The run was not started, and nothing was called. Start it again."),
    "job.other_host": _("The location and the project are on different hosts."),
    "job.program_crashed": _("The run's program crashed: %(name)s (%(words)s)."),
    "job.program_exited": _("The run's program exited with status %(status)d before it reported a result."),
    "job.program_killed": _("The run's program was killed by signal %(number)d."),
    "job.project_folder_missing": _("The project's folder does not exist: %(path)s."),
    "job.project_in_protected_folder": _(
        "The project's code in %(folder)s is inside %(cover)s, which holds checkpoints or Forkline's "
        "data. Nothing is imported from there. Add only the folder that holds the checkpoints as a "
        "location."
    ),
    "job.project_missing": _(
        "This location has no project. Configure the project's folder and interpreter first."
    ),
    "job.project_not_confirmed": _(
        "Nobody has allowed the code of “%(name)s” to run yet. Confirm the project first."
    ),
    "job.python_path_in_protected_folder": _(
        "The project's Python imports modules from %(entry)s (%(file)s). This is inside %(cover)s, which "
        "holds checkpoints or Forkline's data. Nothing is imported from there."
    ),
    "job.stored_copy_missing": _(
        "The stored copy of this checkpoint no longer exists: its location was removed."
    ),
    "job.unfinished_in_backup": _(
        "The job had not finished when the database was copied. Whether it has run since is unknown."
    ),
    "preflight.checkpoint_removed": _("The checkpoint no longer exists: its location was removed."),
    "preflight.effects_first": _("Accept the effects of the checkpoint first: run the preflight check."),
    "preflight.internal_error": _("Forkline failed to run the check. See the server's log."),
    "preflight.output_too_long": _("The check was stopped because it wrote too much output."),
    "preflight.timed_out": _(
        "The check was stopped because it took longer than PREFLIGHT_SECONDS (%(seconds)d)."
    ),
    # Why an answer does not fit the schema that its question gives.
    "answers.at_place": _("“%(place)s” of the answer: %(why)s"),
    "answers.does_not_fit": _("This does not fit the schema of the answer: %(why)s"),
    "answers.missing": _("This value is missing."),
    "answers.one_of": _("This must be one of: %(values)s"),
    "answers.type": _("This must be of the JSON type %(type)s."),
    # What can be edited of a checkpoint, what a run reads of it, and why an edit is refused.
    "edit.only_of_graphs": _("Only checkpoints of graphs have channels, nodes and interrupts."),
    "edit.agents_have_former_value": _(
        "These agents received the former value, and the checkpoint holds no template of their texts: "
        "%(roles)s. To give them the new value, name the crew's code under “Entry point”."
    ),
    "edit.code_missing": _(
        "Guardrails, callbacks, conditions and links between tasks are not in a checkpoint. They cannot "
        "be restored without the code that made this crew: name it under “Entry point”, or add it to the "
        "project."
    ),
    "edit.flow_finished": _("According to the flow's source, nothing is left to run."),
    "edit.flow_source_changed": _(
        "The flow's source has changed since this checkpoint, so other methods may follow."
    ),
    "edit.next_methods_unknown": _(
        "The flow's source does not say which methods follow: their names are built at run time."
    ),
    "edit.stored_input": _("the input %(name)s"),
    "edit.stored_method_result": _("the result of the method %(name)s"),
    "edit.stored_prompt": _("the agent's prompt"),
    "edit.stored_state": _("%(name)s in the flow's state"),
    "edit.stored_task_output": _("the output of task %(position)d"),
    "edit.prompt_unknown": _("The checkpoint does not hold the agent's prompt. Type it."),
    "edit.agent_has_no_state": _("A standalone agent has no state to edit: edit its input."),
    "edit.agent_output_is_result": _(
        "A standalone agent's output is its result: nothing after it would read an edit."
    ),
    "edit.crew_has_no_state": _("A crew has no state to edit: edit its inputs or the outputs of its tasks."),
    "edit.flow_inputs_are_state": _("A flow's inputs become its state: edit the flow's state instead."),
    "edit.flow_method_cannot_rerun": _(
        "A finished method of a flow cannot run again: fork from the checkpoint before it."
    ),
    "edit.flow_outputs_not_editable": _(
        "The outputs of a flow's methods cannot be edited: edit the flow's state instead."
    ),
    "edit.hold_of_unfinished_task": _("Task %(position)d has not finished, so it has no output to keep."),
    "edit.nothing_to_run": _("Nothing in this checkpoint can be run: it holds no crew, flow or agent."),
    "edit.output_of_unfinished_task": _(
        "Task %(position)d has not finished: it would overwrite an edited output."
    ),
    "edit.rerun_and_edited": _(
        "Task %(position)d cannot both run again and have an edited output. Choose one."
    ),
    "edit.rerun_and_held": _("Task %(position)d cannot both run again and be kept. Choose one."),
    "edit.unknown_task": _("This checkpoint has no task %(name)r."),
    # What can be wrong with a store or an edit of LangGraph's checkpoints.
    "langgraph.answer_and_edit": _(
        "A fork can either answer an interrupt or change the state: with a changed state the node asks again."
    ),
    "langgraph.columns_missing": _("Its table “%(table)s” lacks columns that LangGraph writes."),
    "langgraph.message_place_by_id": _(
        "A reducer adds new messages at the end. To insert one before another, replace all messages instead."
    ),
    "langgraph.message_redacted": _(
        "A message that would be written holds a redacted part. Replace that part, or edit other messages "
        "only, by their ids."
    ),
    "langgraph.message_without_id": _(
        "A message without an id cannot be changed or removed by its id. Replace all messages instead."
    ),
    "langgraph.no_interrupt": _("No interrupt waits for an answer at this checkpoint."),
    "langgraph.not_a_checkpoint": _("It is not a checkpoint of LangGraph."),
    "langgraph.nothing_to_fork": _(
        "Nothing runs after this checkpoint. Choose an earlier one, or edit the state or “As node” so that a "
        "node follows."
    ),
    "langgraph.only_state": _("Only the state of a graph can be edited, not %(what)s."),
    "langgraph.other_nodes": _(
        "With an edited state, conditional edges decide again, so other nodes may run than the checkpoint "
        "says."
    ),
    "langgraph.resume_has_no_edits": _("A resume changes nothing in the thread. Fork it to edit its state."),
    "langgraph.subgraph_not_forkable": _(
        "A subgraph's checkpoint cannot be forked alone. Fork the checkpoint of the thread that called it."
    ),
    "langgraph.text_not_of_type": _("The new value of “%(channel)s” is no %(type)s."),
    "langgraph.thread_unreadable": _("The thread's id cannot be shown."),
    "langgraph.too_deep": _("A value is nested too deeply."),
    "langgraph.type_not_clear": _(
        "“%(channel)s” holds objects of %(type)s, and the new value does not say which class it has. Write "
        'each new object as {"__type__": "module.Class", "fields": …}.'
    ),
    "langgraph.value_invalid": _("A value is not valid %(kind)s."),
}
