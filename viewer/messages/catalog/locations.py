"""What can be wrong with a location, a file or row of it, an import, or a deletion at its source."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    # What another machine does not do.
    "host.away": _("The host %(host)s does not answer."),
    "host.failed": _("The host %(host)s failed to answer. Its log says why."),
    "host.path_refused": _(
        "%(path)s is outside the folders that may be opened there (CHECKPOINT_ROOTS): %(roots)s"
    ),
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
    "store.columns_missing": _("Its table of checkpoints has no columns “id” and “data”."),
    "store.companion_not_a_file": _("“%(name)s” is not a plain file, so the store is not opened."),
    "store.companion_too_large": _("“%(name)s” has %(size)s bytes. The limit is %(most)s."),
    "store.device": _("It is a device, not a file."),
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
    "store.no_answer": _("It could not be read within %(most)d seconds."),
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
    "store.parse_timed_out": _("Reading it took more than %(most)s seconds."),
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
        "It contains more than %(most)s files and folders (LOCATION_MAX_FILES). Add the folder that holds "
        "the checkpoints."
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
    "postgresql.timed_out": _("A statement took more than %(most)d seconds. Try again."),
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
    "prune.not_a_plain_table": _(
        "Nothing was deleted: the checkpoints are not in a plain table, or the table has triggers."
    ),
    "prune.plan_changed": _("The list has changed since it was shown. Nothing was deleted."),
    "prune.row_changed": _("Nothing was deleted: %(key)s has changed since it was listed."),
    "prune.unreadable": _("The location cannot be read, so nothing is listed."),
}
