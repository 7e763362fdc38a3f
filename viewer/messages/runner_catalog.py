"""Messages of the runners. A runner reads this file by its path, so it imports nothing."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
    # Every runner.
    "runner.disk_full": _(
        "The run was stopped: no space is left on the disk of %(path)s. Free some, then resume from the last "
        "checkpoint."
    ),
    "runner.effects_not_accepted": _(
        "Nothing has run: the checkpoint has effects that nobody has accepted for this project: "
        "%(effects)s. Accept them in the form, or with --accept-effects; or name the entry point."
    ),
    "runner.engine_panicked": _(
        "The engine crashed while it wrote a checkpoint (%(error)s). Resume from the last one."
    ),
    "runner.entry_point_import_failed": _("%(entry_point)s cannot be imported: %(kind)s: %(error)s"),
    "runner.entry_point_malformed": _("The entry point %(entry_point)r must have the form module:name."),
    "runner.entry_point_name_missing": _(
        "%(entry_point)s does not exist: the module %(module)s has no %(name)s."
    ),
    "runner.input_during_preflight": _(
        "The project's code asks for input (%(prompt)s) while it is imported, so the check could not "
        "finish. The run will ask you."
    ),
    "runner.model_unreachable": _(
        "The model %(model)s could not be reached at %(address)s (%(error)s). Check that address in the "
        "project's settings, and that it answers. Then retry: what has finished is kept."
    ),
    "runner.module_in_other_folder": _(
        "%(entry_point)s cannot be imported: there is no module %(module)s, but %(folder)s has one. "
        "Choose that folder as the project's, and name the module as it is imported from there."
    ),
    "runner.module_missing": _(
        "%(entry_point)s cannot be imported: there is no module %(module)s in the project or its environment."
    ),
    "runner.present_code_imported": _(
        "Python imports %(module)s from %(path)s when it starts, which is the present code of the project. "
        "So the recorded commit cannot run alone. Remove the .pth file that imports it."
    ),
    "runner.no_answer_left": _(
        "The run stopped at a call of %(model)s, and no model was called: the record has no further answer, "
        "or it contains a secret or is too long. The call was: %(sent)s. Fork again, and call the model."
    ),
    "runner.no_recorded_answer": _(
        "The run stopped at a call of %(model)s, and no model was called: the record has no usable answer to "
        "these messages. An edit or other code has changed them, or the answer contains a secret or is too "
        "long. The call was: %(sent)s. Fork again without that change, use the recorded answers in order, or "
        "call the model."
    ),
    "runner.password_input": _(
        "The project's code asks for a password (%(prompt)s). Set it in the project's environment file "
        "instead."
    ),
    "runner.project_exited": _("The project's code exited the program (sys.exit(%(code)s))."),
    "runner.project_folder_failed": _("The project's folder cannot be opened: %(error)s"),
    "runner.score_not_callable": _("%(function)s is not a function, so it cannot score anything."),
    "runner.score_of_other_type": _(
        "%(function)s returned a value of type %(type)s. A score is a number, a boolean or a text."
    ),
    # CrewAI's.
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
        "The prompt cache was not warmed up within %(seconds)s s. The run continues."
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
    "crewai.feedback_not_pending": _(
        "The flow no longer waits for feedback: it was answered elsewhere, or it has continued. Nothing has "
        "run."
    ),
    "crewai.feedback_of_other_flow": _(
        "The flow %(asked_by)s waits for feedback, but the entry point is %(found)s. Choose the entry point "
        "of the flow that asks."
    ),
    "crewai.no_state_choice": _(
        "@persist stores a state after each method: which ones are stored and kept cannot be chosen."
    ),
    "crewai.draft_deleted": _("The draft of this fork has been deleted, so it can no longer be published."),
    "crewai.draft_waits": _(
        "The fork waits for an answer. Answer it before you publish it. Nothing was written."
    ),
    "crewai.flow_exists": _("The store has a flow %(flow)s with other states. Nothing was written."),
    "crewai.not_published": _("The flow ran, but its states were not published: %(why)s"),
    "crewai.store_not_writable": _("%(path)s cannot be written to. Nothing was written."),
    "crewai.store_write_failed": _("Nothing was written to %(path)s: %(error)s"),
    "crewai.state_fork_needs_newer_version": _(
        "This version of CrewAI (%(version)s) cannot fork the state of a flow. Install 1.14.7 or newer."
    ),
    "crewai.state_missing": _("The state %(checkpoint)s is no longer in %(path)s. Choose another one."),
    "crewai.state_unreadable": _("The state %(checkpoint)s cannot be read from %(path)s: %(error)s"),
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
    # LangGraph's.
    "langgraph.answers_do_not_fit": _(
        "An answer names an interrupt that is not waiting. The waiting interrupts have these ids: %(ids)s"
    ),
    "langgraph.as_node_missing": _(
        "Several nodes ran in the step before this checkpoint, so it is unclear which of them made the "
        "change. Choose one with “As node”: %(nodes)s"
    ),
    "langgraph.checkpoint_deleted": _(
        "The checkpoint %(checkpoint)s is no longer in the store. Import the location again."
    ),
    "langgraph.database_failed": _("Nothing was written to %(path)s. The server answered: %(error)s"),
    "langgraph.edit_failed": _("The graph does not accept the edited state: %(kind)s: %(error)s"),
    "langgraph.entry_point_failed": _("The entry point %(entry_point)s failed: %(kind)s: %(error)s"),
    "langgraph.entry_point_not_graph": _(
        "The entry point %(entry_point)s makes a %(found)s, not a graph of LangGraph."
    ),
    "langgraph.foreign_database": _(
        "%(path)s is a database without LangGraph's tables. Nothing was written to it."
    ),
    "langgraph.location_is_link": _("%(path)s is now a link to %(place)s. Nothing has run."),
    "langgraph.needs_entry_point": _(
        "A graph needs its own code to run: choose its entry point, or add it to the project."
    ),
    "langgraph.no_checkpoint_choice": _(
        "LangGraph writes a checkpoint after every step: which ones are written and kept cannot be chosen."
    ),
    "langgraph.next_of_subgraph": _("What runs next cannot be determined for the state of a subgraph."),
    "langgraph.no_context": _(
        "This version of LangGraph has no context. Use configurable values, or install 0.6 or newer."
    ),
    "langgraph.no_connection": _(
        "No connection is configured for %(path)s. Add it to the setting POSTGRESQL_LOCATIONS."
    ),
    "langgraph.no_psycopg": _(
        "%(package)s and psycopg are not installed for the project's Python. Install them there."
    ),
    "langgraph.no_such_channel": _("The graph has no channels named %(channels)s."),
    "langgraph.no_such_node": _("The graph has no node named %(node)s."),
    "langgraph.not_connected": _(
        "The project's Python cannot connect to %(path)s (%(kind)s). Check the connection and its password."
    ),
    "langgraph.not_installed": _(
        "%(package)s is not installed for %(python)s. Install it there, or choose the Python of the project."
    ),
    "langgraph.not_the_head": _(
        "Only the last checkpoint of a thread can be resumed. Fork this one instead: a fork leaves the "
        "thread as it is."
    ),
    "langgraph.no_client": _(
        "No client for the model %(model)s was found: the project's code makes no chat model, and its "
        "environment lacks the package langchain, which makes one by its name."
    ),
    "langgraph.model_unusable": _("The model %(model)r cannot be used here: %(kind)s: %(error)s"),
    "langgraph.nothing_follows": _(
        "Nothing has run: no node follows. Choose an earlier checkpoint, edit the state so that an edge "
        "leads on, or choose another node under “As node” (--as-node): --ask-next shows what follows each."
    ),
    "langgraph.nothing_left": _("Nothing is left to run in this thread."),
    "langgraph.nothing_waits": _("No interrupt waits for an answer at this checkpoint."),
    "langgraph.too_large_to_send": _(
        "A run from this checkpoint needs more than %(most)d MB of its store, so it can only run on its host."
    ),
    "saver.answer_too_large": _("The checkpoint saver returned too much at once."),
    "saver.failed": _("The checkpoint saver raised %(kind)s."),
    "saver.malformed": _("The checkpoint saver returned something that is no list of checkpoints."),
    "saver.in_memory": _("The checkpoint saver has its threads only in memory. Nothing was deleted."),
    "saver.no_delete": _("The checkpoint saver has no method that deletes a thread. Nothing was deleted."),
    "saver.not_deleted": _("The checkpoint saver did not delete the thread."),
    "saver.no_saver": _("%(saver)s is no checkpoint saver and returns none, but %(found)s."),
    "saver.no_runs": _(
        "A checkpoint saver is only read: fork one of its checkpoints, and keep the fork as a draft."
    ),
    "saver.not_copied": _(
        "The thread has values that are encrypted or pickled, so it cannot be copied from a checkpoint saver."
    ),
    "saver.only_read": _(
        "The project's code called %(method)s of a checkpoint saver, which Forkline only reads."
    ),
    "saver.own_serializer": _("The checkpoint saver does not let its serializer be replaced."),
    "saver.too_many": _("The checkpoint saver has more than %(most)d checkpoints."),
    "langgraph.only_sqlite": _("Only a thread in a SQLite store can be run."),
    "langgraph.opaque_value": _("A value that cannot be decoded cannot be edited."),
    "langgraph.plan_differs": _(
        "Nothing has run: the graph would run %(found)s next, but the plan says %(planned)s. The"
        " project's code may have changed since the checkpoint was written."
    ),
    "langgraph.reserved_configurable": _(
        "These configurable values are set by the thread and cannot be chosen: %(names)s"
    ),
    "langgraph.several_interrupts": _(
        "Several interrupts wait at once, and this version of LangGraph cannot distinguish their answers. "
        "Install a newer one."
    ),
    "langgraph.state_unreadable": _("The graph cannot read the checkpoint: %(kind)s: %(error)s"),
    "langgraph.store_changed": _("Another program changed %(path)s while it was read. Try again."),
    "langgraph.store_unreadable": _("The store %(path)s cannot be read: %(error)s"),
    "langgraph.called_by_graph": _(
        "A subgraph's checkpoint cannot be forked alone. Fork the checkpoint of the thread that called it."
    ),
    "langgraph.edit_and_answer": _(
        "A fork can either answer an interrupt or change the state: with a changed state the node asks again."
    ),
    "langgraph.type_not_editable": _("The typed value cannot be converted to the type %(type)s."),
    "langgraph.value_encrypted": _(
        "A value of %(what)s is encrypted (%(type)s), so it cannot be checked before it is loaded."
    ),
    "langgraph.value_unreadable": _("A value of %(what)s cannot be decoded: %(error)s"),
    "langgraph.value_not_copied": _(
        "The value of %(channel)s is stored as %(type)s, which cannot be copied between a SQLite file and a "
        "database."
    ),
    "langgraph.version_too_old": _(
        "LangGraph %(version)s is too old: %(oldest)s or newer is needed for %(python)s."
    ),
    "langgraph.not_all_written": _("The saver did not store every checkpoint, so nothing was written."),
    "langgraph.not_published": _("The fork ran and is a draft in Forkline, but was not published: %(why)s"),
    "langgraph.no_plain_tables": _(
        "Nothing was deleted from %(path)s: its tables are no plain tables, or have triggers."
    ),
    "langgraph.not_pruned": _("Nothing was deleted from %(path)s: %(error)s"),
    "langgraph.prune_differs": _(
        "Nothing was deleted: the deletion would have changed other rows than those that were listed."
    ),
    "langgraph.scratch_deleted": _(
        "The draft of this fork has been deleted, so it can no longer be published."
    ),
    "langgraph.shallow_thread": _(
        "This store has only the last checkpoint of a thread, which would be lost. Publish the fork as a "
        "new thread."
    ),
    "langgraph.store_not_writable": _("%(path)s cannot be written to. Nothing was written."),
    "langgraph.store_write_failed": _("Nothing was written to %(path)s: %(error)s"),
    "langgraph.thread_continued": _(
        "The thread has continued since the fork began, so the fork would not become its head. Nothing "
        "was written. Publish the fork as a new thread."
    ),
    "langgraph.thread_exists": _(
        "The store has a thread %(thread)s with other checkpoints. Nothing was written."
    ),
    "langgraph.thread_lacks_parent": _(
        "The thread no longer has the checkpoint that was forked. Nothing was written. Publish "
        "the fork as a new thread."
    ),
    "langgraph.writes_differ": _(
        "Nothing was written: the fork ran a step again, but later steps read the writes of its first"
        " run in the thread. Publish the fork as a new thread."
    ),
}
