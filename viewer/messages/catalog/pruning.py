"""Why a checkpoint is not deleted at its source, or a location cannot be pruned."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "prune.changed": _("It has changed since it was listed."),
    "prune.database_failed": _("Nothing was deleted. The database reported: %(why)s"),
    "prune.engine_not_supported": _(
        "This engine keeps the state of a checkpoint in several tables. Delete its threads with its own"
        " checkpoint saver. Their stored copies can then be deleted with --delete-copies."
    ),
    "prune.failed": _("It cannot be deleted: %(why)s."),
    "prune.gone": _(
        "The file or folder of this location no longer exists. The stored copies of its checkpoints can be"
        " deleted with --delete-copies."
    ),
    "prune.job_unfinished": _("A job of this location has not finished."),
    "prune.not_a_checkpoint": _("It is not a checkpoint's file of this location."),
    "prune.not_a_plain_table": _(
        "Nothing was deleted: the checkpoints are not in a plain table, or the table has triggers."
    ),
    "prune.plan_changed": _("The list has changed since it was shown. Nothing was deleted."),
    "prune.row_changed": _("Nothing was deleted: %(key)s has changed since it was listed."),
    "prune.unreadable": _("The location cannot be read, so nothing is listed."),
}
