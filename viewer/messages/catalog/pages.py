"""Names of branches, what the search says, and what a typed text must be."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
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
    # What a typed text must be. The phrases follow "must be".
    "validation.must_be": _("This must be %(wanted)s."),
    "validation.named_must_be": _("%(name)s must be %(wanted)s, not %(value)s."),
    "validation.must_be_not": _("must be %(wanted)s, not %(value)s"),
    "validation.whole_number_from": _("a whole number of %(least)d or more"),
    "validation.whole_number_to": _("a whole number of %(most)d or less"),
    "validation.number_from": _("a number of %(least)s or more"),
    "validation.number_to": _("a number of %(most)s or less"),
    "validation.day": _("a day such as 2026-01-31"),
    "validation.host_name": _("a name of at most %(most)d letters, digits, dots, hyphens and underscores"),
    "validation.one_line": _("one line of 1 to %(most)d characters"),
    "validation.one_line_or_empty": _("one line of at most %(most)d characters"),
    "validation.text": _("a text in UTF-8 of at most %(most)d characters"),
    "validation.pair": _("NAME=VALUE with a name of at most %(most)d characters"),
    "validation.path": _("a path"),
    "validation.folder": _("the path of a folder"),
    "validation.file": _("the path of a file that can be read"),
    "validation.readable_file": _("the path of a file that can be read, of at most %(most)d bytes"),
    "validation.program": _("the path of a file that can be executed"),
}
