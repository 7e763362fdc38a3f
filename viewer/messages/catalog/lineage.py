"""Names of branches, and the drawing of a lineage."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "branch.exists": _("There is a branch %(name)r already: choose another name."),
    "branch.in_use": _(
        "Another job writes to branch %(name)r, or waits to. Wait for its end, cancel it, or fork instead."
    ),
    "branch.name_has_empty_part": _(
        "A branch's name may not begin or end with a slash, nor hold '..' or an empty part."
    ),
    "branch.name_has_hidden_characters": _(
        "A branch's name may not hold backslashes or characters that cannot be seen."
    ),
    "branch.name_missing": _("The new branch needs a name."),
    "branch.name_reserved": _(
        "A branch's name may not hold '#' or '_p-', which the engine reads as its own."
    ),
    "branch.name_too_long": _("The branch's name is too long: %(most)d characters at most."),
    "drawing.graphviz_failed": _("Graphviz failed."),
    "drawing.graphviz_missing": _("Graphviz is not installed on this server."),
    "drawing.graphviz_timed_out": _("Graphviz took too long."),
    "drawing.too_many_forks": _("There are too many forks for one picture."),
}
