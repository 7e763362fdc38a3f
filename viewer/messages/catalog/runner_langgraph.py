"""Messages of LangGraph's runner. The runner reads this file by its path, so it imports nothing."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
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
    "langgraph.nothing_follows": _(
        "Nothing has run: no node follows. Choose an earlier checkpoint, edit the state so that an edge "
        "leads on, or choose another node under “As node” (--as-node): --ask-next shows what follows each."
    ),
    "langgraph.nothing_left": _("Nothing is left to run in this thread."),
    "langgraph.nothing_waits": _("No interrupt waits for an answer at this checkpoint."),
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
