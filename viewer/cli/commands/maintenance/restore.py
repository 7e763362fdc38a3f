"""``manage.py checkpoints restore``."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import READ_FILE
from viewer.cli.output import Output
from viewer.data_folder.database_server import refuse_copies
from viewer.data_folder.restoring import restore
from viewer.host.jobs.files import has_any_runner

HELP = gettext_lazy("Replace the database with a copy, while Forkline is stopped.")
# The database may be damaged.
MAKES_READY = False


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "file", type=READ_FILE, metavar="FILE", help=_("A copy that “backup” or an upgrade created.")
    )


def handle(options: Mapping[str, Any]) -> Output:
    """The restored copy, and the path of the replaced database. Raises DataFolderFailure."""
    refuse_copies()
    copy, folder = Path(options["file"]).expanduser().absolute(), Path(settings.DATA_DIR)
    replaced = restore(copy, folder, partial(has_any_runner, folder))
    lines = [_("Restored %(path)s. All users have to log in again.") % {"path": copy}]
    if replaced:
        lines.append(_("The replaced database is kept at %(path)s.") % {"path": replaced})
    lines.append(_("Jobs that had not finished when it was copied are interrupted. Start them manually."))
    return Output({"path": str(copy), "replaced": str(replaced) if replaced else None}, lines)
