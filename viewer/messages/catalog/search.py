"""What the search says."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "search.too_slow": _("This search took too long. Add a word, or narrow it down to a location."),
}
