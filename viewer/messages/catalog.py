"""The English text of each message code. Texts name values: ``%(name)s``, ``d`` or ``r``."""

from viewer.messages import runner_catalog


def gettext_noop(text: str) -> str:
    """The text itself: this marks it for ``makemessages`` without translating it."""
    return text


_ = gettext_noop

CATALOG: dict[str, str] = {
    "unknown_code": _("Message %(code)s of another version of Forkline: %(values)s"),
    # Why a recorded commit cannot be checked out.
    "checkout.commit_missing": _("The project's repository no longer has the recorded commit %(commit)s."),
    "checkout.folder_missing": _(
        "The recorded commit %(commit)s does not have the project's folder %(folder)s."
    ),
    "checkout.git_failed": _("git could not read the recorded commit %(commit)s: %(error)s."),
    "checkout.link_outside": _(
        "The recorded commit cannot be checked out: its link %(path)s leads out of the repository."
    ),
    "checkout.names_clash": _(
        "The recorded commit %(commit)s cannot be checked out: it has two files at %(path)s."
    ),
    "checkout.submodule": _(
        "The recorded commit cannot be checked out: %(path)s is a submodule, whose files it does not have."
    ),
    "checkout.too_large": _("The recorded commit cannot be checked out: its files are larger than %(size)s."),
    "checkout.too_many_files": _(
        "The recorded commit cannot be checked out: it has more than %(max_count)d files."
    ),
    "checkout.unsafe_name": _(
        "The recorded commit cannot be checked out: %(path)s is not a valid file name."
    ),
    # How runs are isolated.
    "isolation.cannot_close": _(
        "Landlock cannot close %(path)s within %(folder)s, which the run may write. Move one of them, or "
        "choose bubblewrap."
    ),
    "isolation.database_not_allowed": _(
        "The location %(name)s is on the server %(host)s, which runs of this project may not reach. Allow "
        "%(host)s on the project's page, under Isolation."
    ),
    "isolation.database_without_host": _(
        "The location %(name)s is on a server that its connection names without a host, or with one that "
        "cannot be allowed, such as a Unix socket. Give the connection a host and a port, and allow them on "
        "the project's page, under Isolation."
    ),
    "isolation.environment_file_leads_out": _(
        "The environment file %(path)s is a link to what is closed to runs of this project."
    ),
    "isolation.folder_not_absolute": _("%(path)s is not an absolute path without “..”."),
    "isolation.folders_need_sandbox": _(
        "Further folders need the launcher bubblewrap or Landlock: with the others, all files are open."
    ),
    "isolation.hosts_need_bubblewrap": _(
        "Allowed hosts need the launcher bubblewrap: the others cannot tell one host from another."
    ),
    "isolation.hosts_unavailable": _(
        "Runs cannot be limited to allowed hosts on this host: %(reason)s. Choose another network on the "
        "project's page."
    ),
    "isolation.hosts_without_network": _("Allowed hosts are only for the network “hosts”."),
    "isolation.invalid_host": _(
        "“%(host)s” cannot be an allowed host. Write HOST or HOST:PORT, such as api.openai.com or "
        "db.example.org:5432, without a scheme, a path or a wildcard. An address of IPv6 is in brackets."
    ),
    "isolation.key_address_not_allowed": _(
        "The key %(variable)s stays with Forkline and goes to %(host)s, which runs of this project may not "
        "reach. Allow %(host)s on the project's page, under Isolation."
    ),
    "isolation.leads_elsewhere": _(
        "%(path)s was not open to runs of this project so far, and a run may have changed what leads there. "
        "If you expect it, save the isolation of the project again."
    ),
    "isolation.limit_reached": _(
        "The run was ended: it reached the limit of its project, %(limit)s = %(most)s."
    ),
    "isolation.malformed": _("The isolation of the project cannot be read: %(reason)s"),
    "isolation.network_needs_sandbox": _(
        "A run without network needs the launcher bubblewrap or Landlock: with the others, it can act through"
        " programs that have one."
    ),
    "isolation.no_hosts": _("Name at least one allowed host, or choose the network “none”."),
    "isolation.not_probed": _(
        "Nothing is known yet of the launcher %(launcher)s on this host. Start its worker again."
    ),
    "isolation.not_started": _(
        "Nothing was started, because what the project asks for could not be had (%(launcher)s): %(reason)s"
    ),
    "isolation.only_runs": _(
        "The project isolates its runs, and this needs a program of the project outside of a run. Choose the"
        " launcher “process” without limits on the project's page."
    ),
    "isolation.out_of_range": _("%(name)s is from %(least)s to %(most)s."),
    "isolation.too_many_folders": _("There are more than %(most)s further folders."),
    "isolation.too_many_hosts": _("There are more than %(most)s allowed hosts."),
    "isolation.unavailable": _(
        "The launcher %(launcher)s does not work on this host: %(reason)s. Choose another one on the "
        "project's page."
    ),
    # Why a job does not start, and how it ended; why a preflight check found nothing.
    "job.thread_continued": _(
        "The run has continued since this was requested. Nothing was started: resume its last checkpoint."
    ),
    "job.already_running": _("Another process already runs this job."),
    "job.checkpoints_failed": _(
        "Finished, but checkpoints could not be written (%(failed)d of %(total)d): %(reason)s"
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
    "job.folder_changed": _(
        "The run has replaced its folder %(path)s, or closed it to Forkline, so Forkline ended the run."
    ),
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
        "Finished, but checkpoints could not be written (%(failed)d of %(total)d): the location was"
        " renamed, replaced or removed while the run wrote there."
    ),
    "job.never_started": _("The run was not started, and nothing was called. Start it again."),
    "quota.runs": _(
        "Runs at once of the team %(team)s: %(used)s of %(most)s. The next one can start when one of them has"
        " ended."
    ),
    "quota.several_runs": _(
        "Runs at once of the team %(team)s: %(used)s of %(most)s, so these %(runs)d cannot start. Start"
        " fewer, or wait until some have ended."
    ),
    "quota.tokens": _(
        "Tokens a day of the team %(team)s: %(used)s of %(most)s. Its quota is free again at %(until)s."
    ),
    "quota.cost": _(
        "The team %(team)s has spent %(used)s of %(most)s a day. Its quota is free again at %(until)s."
    ),
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
    "score.no_answer": _("The call has no whole answer, so nothing was scored."),
    "keys.bad_address": _(
        "The key %(variable)s stays with Forkline, and may only go to one https address, but the environment "
        "file has: %(address)s."
    ),
    "keys.other_address": _(
        "The key %(variable)s stays with Forkline, and may only go to %(address)s, but the environment file "
        "has the address %(found)s. Change the file, or save the keys on the project's page again."
    ),
    "keys.unusable": _(
        "The key %(variable)s stays with Forkline, but the environment file has no such key, or one that is "
        "too short or has blanks. Add it there, or change which keys stay on the project's page."
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
    "preflight.malformed_report": _(
        "The check cannot be read: the project's code has changed its report. %(reason)s"
    ),
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
    "edit.state_not_resumed": _(
        "Only a state that waits for a person's feedback can be resumed. Fork this one instead."
    ),
    "edit.state_starts_over": _(
        "The flow runs from its start with this state, as with CrewAI's restore_from_state_id. No method is "
        "skipped."
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
    # What another machine does not do.
    "host.away": _("The host %(host)s does not answer."),
    "host.failed": _("The host %(host)s failed to answer. Its log says why."),
    "host.not_permitted": _("The host refuses %(kind)s: the account has no permission for it."),
    "host.path_refused": _(
        "%(path)s is outside the folders that may be opened there (CHECKPOINT_ROOTS): %(roots)s"
    ),
    # Why no fork of a checkpoint starts on another host.
    "other_host.code_differs": _(
        "The project's code on this host is not what was accepted. Nothing was started: compare it again."
    ),
    "other_host.copy_changed": _(
        "The stored copy of the checkpoint is not the one that was chosen. Nothing was started: "
        "fork it again."
    ),
    "other_host.no_copy": _("No copy of this checkpoint is stored, so another host cannot start from it."),
    "other_host.redacted_copy": _(
        "The stored copy of this checkpoint lacks what was redacted, and secrets do not leave their host."
        " Fork it on its own host, or choose another checkpoint."
    ),
    "other_host.redacted_store": _(
        "A run from this checkpoint needs something that has a secret, or that cannot be searched for"
        " secrets, and secrets do not leave their host. Fork it on its own host."
    ),
    # Why a host of a pool runs nothing at a location, or why a location cannot be in a pool.
    "pool.large_project": _(
        "The project has more than %(most)d files of source, so other hosts cannot compare it."
    ),
    "pool.local_server": _(
        "The connection of %(path)s does not name a server that is the same for all hosts. Set its host and"
        " port in POSTGRESQL_LOCATIONS."
    ),
    "pool.no_checkpoints": _("It has no checkpoints yet by which another host could recognise it."),
    "pool.no_member": _("%(host)s is not in the pool %(pool)s. Start its worker with --pool %(pool)s first."),
    "pool.not_compared": _("%(host)s has not reported yet what it has there."),
    "pool.of_saver": _("%(path)s is a checkpoint saver. Only the host that added it can read it."),
    "pool.of_sqlite": _(
        "%(path)s is a SQLite file, which several machines must not write to. Use a folder or PostgreSQL."
    ),
    "pool.other_location": _("There is something else at %(path)s."),
    "pool.other_project": _("The project's source or secrets differ from those on %(host)s."),
    "pool.other_server": _("%(path)s is a database of another server here."),
    "host.slow": _("The host %(host)s takes too long to answer."),
    # Why a typed path cannot be one of a project.
    "project.no_environment_file": _("This file does not exist. Leave this empty if there is none."),
    "project.no_file": _("This file does not exist."),
    "project.no_folder": _("This folder does not exist."),
    "project.no_interpreter": _("This must be a Python interpreter, such as …/.venv/bin/python."),
    "project.not_executable": _("This file is not executable."),
    "project.outside": _("This is outside the folders that this server allows: %(roots)s."),
    "project.relative_path": _("Enter an absolute path."),
    "project.unusable_path": _("This path cannot be opened."),
    "host.unknown_request": _("The host does not know %(kind)s. Install the same version everywhere."),
    # What can be wrong with a location, or with a file or row of it.
    "store.became_link": _("The file or its folder has become a link."),
    "store.byte_order_mark": _("It starts with a byte order mark, which the engine cannot read."),
    "store.changed_while_read": _("It changed during every attempt to read it. Try again."),
    "crewai.state_columns_missing": _(
        "Its table “flow_states” lacks the columns “flow_uuid”, “method_name” or “state_json”."
    ),
    "crewai.state_not_an_object": _("The state is not a JSON object."),
    "store.columns_missing": _("Its table of checkpoints has no columns “id” and “data”."),
    "store.companion_not_a_file": _("“%(name)s” is not a plain file, so the store is not opened."),
    "store.companion_too_large": _("“%(name)s” has %(size)s bytes. The limit is %(most)s."),
    "store.device": _("It is a device, not a file."),
    "store.not_utf8": _("It stores texts as UTF-16. Only databases in UTF-8 can be read."),
    "store.disappeared": _("It disappeared or was replaced while it was read. Try again."),
    "store.empty": _("It is empty."),
    "store.encoding_unknown": _("Its text is neither UTF-8 nor Windows-1252 (byte %(byte)d)."),
    "store.file_empty": _("The file is empty until its first checkpoint is written."),
    "store.file_not_opened": _("The file cannot be opened: %(why)s."),
    "store.file_replaced": _("The file was replaced while it was read."),
    "store.file_too_large": _("It has %(size)s bytes. The limit is %(most)s."),
    "store.folder_missing": _("The folder no longer exists."),
    "store.folder_named_json": _("It is a folder, although its name ends in .json."),
    "store.folder_not_listed": _("The folder cannot be listed: %(why)s."),
    "store.folder_replaced": _("Its folder was replaced while it was opened."),
    "store.gzip": _("It is compressed with gzip."),
    "store.half_written": _(
        "The program that wrote it was interrupted. Open the file once with that program."
    ),
    "store.internal_error": _(
        "Forkline failed to read it (%(kind)s). The file is not at fault. See Forkline's log."
    ),
    "store.journal_too_large": _(
        "The file has a write-ahead log, and is too large to be read together with it."
    ),
    "store.json_invalid": _("Invalid JSON at byte %(byte)s."),
    "store.json_not_a_checkpoint": _("It is JSON, but not a checkpoint of a known engine."),
    "store.json_truncated": _("Truncated JSON."),
    "store.json_without_entities": _(
        "It is JSON, but not a checkpoint: it has no list of entities and record of events."
    ),
    "store.kernel_files": _("It is in a file system of the kernel (%(kind)s), which holds no checkpoints."),
    "store.link": _("It is a link, and links are not followed."),
    "store.link_in_path": _(
        "“%(part)s” in its path is a link now, and links are not followed. Add the path that it "
        "leads to instead."
    ),
    "store.locked": _("Another program has locked the file. Try again."),
    "store.name_unprintable": _("Its name contains characters that cannot be shown."),
    "store.nested_folders": _("Its folders are nested too deeply."),
    "store.nested_json": _("It is nested more than %(most)d levels deep."),
    "store.nested_sqlite": _("It is an SQLite file: add it as a location."),
    "store.no_answer": _("It could not be read within %(most)d s."),
    "store.no_checkpoints": _(
        "None of its first %(count)s JSON files is a checkpoint. Add the folder that holds the checkpoints."
    ),
    "store.no_longer_a_file": _("It is no longer a file."),
    "store.no_table": _("It is an SQLite file without a table of checkpoints."),
    "store.not_a_file": _("It is not a file."),
    "store.not_a_folder": _("It is no longer a folder."),
    "store.not_sqlite": _("It is not an SQLite file, or it is encrypted."),
    "store.nothing_at_path": _("There is nothing at this path."),
    "store.not_shown": _("This checkpoint is too large or too deeply nested to show."),
    "store.number_too_long": _("It contains a number of more than %(most)d digits."),
    "store.parse_timed_out": _("Reading it took more than %(most)s s."),
    "store.own_data_folder": _(
        "It is in Forkline's data folder (DATA_DIR), which is not read as a location."
    ),
    "store.path_failed": _("The path cannot be opened: %(why)s."),
    "store.path_invalid": _("The path cannot be opened: it is not a valid path."),
    "store.pdf": _("It is a PDF."),
    "store.pipe": _("It is a pipe, not a file."),
    "store.read_failed": _("It could not be read: %(why)s."),
    "store.read_failed_retry": _("The file could not be read: %(why)s. Try again."),
    "store.read_timed_out": _("Reading it took too long. Try again."),
    "store.reader_crashed": _("The process that read it crashed, possibly out of memory (%(status)d)."),
    "store.reader_not_started": _("No process could be started to read it: %(why)s."),
    "store.reader_stopped": _("The process that reads it was ended. Try again."),
    "store.reader_stopped_twice": _("The process that read it was ended twice."),
    "store.replaced": _("It was replaced after it was added: another file or folder is at its path now."),
    "store.root_folder": _(
        "It is the root of the file system, which contains all projects. Add the folder that holds the "
        "checkpoints."
    ),
    "store.row_damaged": _("The row is on a damaged page."),
    "store.row_not_json": _("SQLite cannot read the row's data as JSON."),
    "store.row_not_json_or_text": _("Its data is neither JSON nor text."),
    "store.row_too_large": _("The row exceeds SQLite's limit."),
    "store.row_vanished": _("The row disappeared while it was being read."),
    "store.row_without_id": _("The row has no id that can be shown."),
    "store.socket": _("It is a socket, not a file."),
    "store.table_damaged": _("The file is damaged: its table cannot be read."),
    "store.table_empty": _(
        "The table of checkpoints is empty. CrewAI leaves it empty if its Python has an SQLite "
        "older than 3.45, which cannot store them: it only logs the failure."
    ),
    "store.table_not_plain": _("“%(table)s” is not a plain table, so it is not read."),
    "store.table_partly_damaged": _("Part of the table is damaged: rows may be missing."),
    "store.too_many_names": _(
        "It contains more files and folders than LOCATION_MAX_FILES allows (%(most)s). Add the folder that "
        "holds the checkpoints."
    ),
    "store.too_much_memory": _("Reading it takes more than %(most)d MB of memory."),
    "store.too_slow": _("Reading its bytes was too slow."),
    "store.truncated_character": _("It ends in the middle of a character."),
    "store.unknown_kind": _("It is neither a folder nor an SQLite file."),
    "store.vanished": _("It disappeared while it was being read."),
    "store.zero_bytes": _("It contains zero bytes where text is expected."),
    "store.zip": _("It is a ZIP archive."),
    # What can be wrong with a PostgreSQL location.
    "postgresql.connection_lost": _("The connection to the server was lost. Try again."),
    "postgresql.no_answer": _("The server does not respond. Try again."),
    "postgresql.no_permission": _(
        "The role may not read LangGraph's tables: grant it USAGE on their schema and SELECT on them."
    ),
    "postgresql.no_table": _("The database has no table “%(table)s” in the role's search path."),
    "postgresql.not_configured": _(
        "The setting POSTGRESQL_LOCATIONS has no connection with this name. Add it, and restart Forkline."
    ),
    "postgresql.not_connected": _("The server refused the connection or could not be reached: %(why)s."),
    "postgresql.statement_failed": _("The server could not execute a statement (error %(code)s)."),
    "postgresql.tables_changed": _("The tables changed while they were read. Try again."),
    "postgresql.timed_out": _("A statement took more than %(most)d s. Try again."),
    # What can be wrong with a checkpoint saver.
    "saver.ended": _("The process that reads the checkpoint saver has ended. Try again."),
    "saver.not_permitted": _(
        "Reading a checkpoint saver runs the project's code. Choose its project, and permit that."
    ),
    "saver.not_started": _("The project's interpreter could not be started: %(why)s."),
    "saver.timed_out": _("The checkpoint saver did not respond within %(most)d s."),
    # Why no job starts on a host.
    "host.disk_full": _("No job starts: hardly any space is left on the disk of %(path)s. Free some."),
    "host.not_writable": _("No job starts: %(path)s cannot be written. Check its owner and its disk."),
    # What can be wrong with a stored copy in the bucket.
    "bucket.away": _(
        "The bucket %(bucket)s does not answer. Stored copies in it cannot be read or written until it does."
    ),
    "bucket.no_credentials": _(
        "There are no credentials for the bucket %(bucket)s. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    ),
    "bucket.not_set": _("This stored copy is in a bucket. Set BUCKET_URL to it here, too."),
    "bucket.object_damaged": _("The object of this stored copy in the bucket %(bucket)s was changed."),
    "bucket.object_missing": _("The object of this stored copy is missing from the bucket %(bucket)s."),
    "bucket.refused": _(
        "The bucket %(bucket)s refused a request (%(code)s). Check its name, the credentials and their"
        " permissions."
    ),
    # What goes wrong during an import.
    "import.being_written": _("It is still being written. %(why)s"),
    "import.copy_deleted": _("It was pruned at its location, and its stored copy was deleted as well."),
    "import.deleted_at_source": _("It was deleted at its location."),
    "import.read_failed": _("It could not be read: %(why)s. Try again."),
    # Why a checkpoint is not deleted at its source, or a location cannot be pruned.
    "prune.changed": _("It has changed since it was listed."),
    "prune.database_failed": _("Nothing was deleted. The database reported: %(why)s"),
    "prune.engine_not_supported": _(
        "This engine keeps the state of a checkpoint in several tables. Delete its threads with its own"
        " checkpoint saver. Their stored copies can then be deleted with --delete-copies."
    ),
    "prune.failed": _("It cannot be deleted: %(why)s."),
    "prune.gone": _(
        "The file or folder of this location no longer exists. The stored copies of its checkpoints can be"
        " deleted with --delete-copies."
    ),
    "prune.job_unfinished": _("A job of this location has not finished."),
    "prune.not_a_checkpoint": _("It is not a checkpoint's file of this location."),
    "prune.no_branches": _(
        "Threads of LangGraph have no named branches. Choose an age, a number or a thread."
    ),
    "prune.no_threads": _("Only locations of LangGraph have threads. Choose an age, a number or a branch."),
    "prune.not_copied": _(
        "Nothing was deleted. Checkpoints that could not be copied before: %(count)d. Delete them without "
        "copies, with --delete-copies."
    ),
    "prune.not_permitted": _(
        "Threads are deleted with LangGraph, in the interpreter of their project. Choose the location's "
        "project and permit its code first. The stored copies of threads that you delete yourself can be "
        "deleted with --delete-copies."
    ),
    "prune.saver_whole_only": _("A project's checkpoint saver can only delete whole threads."),
    "prune.protected_name_hidden": _(
        "A checkpoint that has to stay cannot be identified, because its id contains a secret. Nothing is "
        "listed."
    ),
    "prune.whole_or_latest": _("Delete whole threads, or keep the newest checkpoints of threads."),
    "prune.not_a_plain_table": _(
        "Nothing was deleted: the checkpoints are not in a plain table, or the table has triggers."
    ),
    "prune.plan_changed": _("The list has changed since it was shown. Nothing was deleted."),
    "prune.row_changed": _("Nothing was deleted: %(key)s has changed since it was listed."),
    "prune.unreadable": _("The location cannot be read, so nothing is listed."),
    # Hidden values.
    "reveal.not_hidden": _("Nothing is hidden at this place of the checkpoint now. Open the list again."),
    "reveal.other_host": _(
        "The location is on %(host)s. A hidden value is only read by the machine that shows it: open Forkline"
        " there."
    ),
    # Answers to what a run asks before it calls a tool.
    "answer.tool_call": _("Answer with %(choices)s, or with the arguments as a JSON object."),
    "answer.hidden_argument": _(
        "%(marker)s is hidden and would be sent as it is. Type the whole value, or call the tool unchanged."
    ),
    # Names of branches, and the drawing of a lineage.
    "branch.exists": _("The branch %(name)r already exists. Choose another name."),
    "branch.in_use": _(
        "Another job writes to branch %(name)r, or is queued to. Wait until it ends, cancel it, or fork "
        "instead."
    ),
    "branch.name_has_empty_part": _(
        "A branch name may not begin or end with a slash, or contain '..' or an empty part."
    ),
    "branch.name_has_hidden_characters": _(
        "A branch name may not contain backslashes or invisible characters."
    ),
    "branch.name_missing": _("Enter a name for the new branch."),
    "branch.name_reserved": _("A branch name may not contain '#' or '_p-', which the engine reserves."),
    "branch.name_too_long": _("The branch name is too long. The limit is %(most)d characters."),
    "drawing.code_has_no_graph": _("The project's code does not say what its graph is."),
    "drawing.graphviz_failed": _("Graphviz failed."),
    "drawing.graphviz_missing": _("Graphviz is not installed on this server."),
    "drawing.graphviz_timed_out": _("Graphviz took too long."),
    "drawing.too_many_units": _("There are too many nodes to be drawn."),
    # What the search says.
    "search.since": _("The first day"),
    "search.until": _("The last day"),
    "search.tokens": _("The number of tokens"),
    "search.cost": _("The cost"),
    "search.status": _("The status"),
    "search.one_of": _("one of %(choices)s"),
    "search.too_slow": _("This search took too long. Add a word, or narrow it down to a location."),
    # Why nothing is added to a collection.
    "collection.gone": _("It was removed."),
    "collection.no_call": _("The checkpoint does not record the call %(name)s."),
    "collection.no_message": _("The checkpoint has no message %(name)s."),
    "collection.item_changed": _("Somebody changed this item while you were writing. Nothing was saved."),
    "collection.too_many": _("There can be at most %(most)d collections. Delete one first."),
    "collection.too_many_items": _("A collection can have at most %(most)d items. Nothing was added."),
    "collection.too_many_selected": _("At most %(most)d can be added at once."),
    "collection.name_taken": _("There is another collection “%(name)s”. Choose another name."),
    "collection.too_large": _("The file is larger than %(most)d bytes. Nothing was imported."),
    "collection.empty_file": _("The file has no items. Nothing was imported."),
    "collection.not_imported": _("The file has errors. Nothing was imported."),
    "collection.not_an_item": _("This is not an item: %(reason)s"),
    "collection.field": _("“%(name)s” must be %(wanted)s."),
    # What a typed text must be. The phrases follow "must be".
    "export.not_reproducible": _(
        "No test can repeat this run: its first branch has to end without a resume or an edit, and its "
        "inputs have to be recorded as plain values."
    ),
    "validation.must_be": _("This must be %(wanted)s."),
    "validation.named_must_be": _("%(name)s must be %(wanted)s, not %(value)s."),
    "validation.must_be_not": _("must be %(wanted)s, not %(value)s"),
    "validation.whole_number_from": _("a whole number of %(least)d or more"),
    "validation.whole_number_to": _("a whole number of %(most)d or less"),
    "validation.number_from": _("a number of %(least)s or more"),
    "validation.number_to": _("a number of %(most)s or less"),
    "validation.day": _("a day such as 2026-01-31"),
    "validation.host_name": _("a name of at most %(most)d letters, digits, dots, hyphens and underscores"),
    "validation.collector": _("the HTTP address of a collector, such as %(example)s, without a password"),
    "validation.one_line": _("one line of 1 to %(most)d characters"),
    "validation.one_line_or_empty": _("one line of at most %(most)d characters"),
    "validation.text": _("a text in UTF-8 of at most %(most)d characters"),
    "validation.pair": _("NAME=VALUE with a name of at most %(most)d characters"),
    "validation.path": _("a path"),
    "validation.folder": _("the path of a folder"),
    "validation.file": _("the path of a file that can be read"),
    "validation.readable_file": _("the path of a file that can be read, of at most %(most)d bytes"),
    "validation.program": _("the path of a file that can be executed"),
    **runner_catalog.MESSAGES,
}
