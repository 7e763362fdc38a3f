"""What can be wrong with a store or an edit of LangGraph's checkpoints."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
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
