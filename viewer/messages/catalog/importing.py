"""What goes wrong during an import."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "import.being_written": _("It is still being written. %(why)s"),
    "import.copy_deleted": _("It was pruned at its location, and its stored copy was deleted as well."),
    "import.deleted_at_source": _("It was deleted at its location."),
    "import.read_failed": _("It could not be read: %(why)s. Try again."),
}
