"""What the search says."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "search.since": _("The first day"),
    "search.until": _("The last day"),
    "search.tokens": _("The number of tokens"),
    "search.cost": _("The cost"),
    "search.status": _("The status"),
    "search.one_of": _("one of %(choices)s"),
    "search.too_slow": _("This search took too long. Add a word, or narrow it down to a location."),
}
