"""Names of branches, and the drawing of a lineage."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
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
}
