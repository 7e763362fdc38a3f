"""What can be wrong with a checkpoint store of LangGraph."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "langgraph.columns_missing": _("Its table “%(table)s” lacks columns that LangGraph writes."),
    "langgraph.not_a_checkpoint": _("It is not a checkpoint of LangGraph."),
    "langgraph.not_editable": _("Checkpoints of LangGraph cannot be edited."),
    "langgraph.thread_unreadable": _("The thread's id cannot be shown."),
    "langgraph.too_deep": _("A value is nested too deeply."),
    "langgraph.value_invalid": _("A value is not valid %(kind)s."),
}
