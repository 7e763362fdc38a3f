"""What goes wrong during an import."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "import.being_written": _("It is still being written. %(why)s"),
    "import.read_failed": _("It could not be read: %(why)s. Try again."),
}
