"""``manage.py checkpoints backup``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import NEW_FILE
from viewer.cli.output import Output
from viewer.data_folder.backups import copy_database
from viewer.data_folder.database_server import refuse_copies
from viewer.data_folder.failures import DataFolderFailure, database_path
from viewer.formats import short_size

HELP = gettext_lazy("Copy the database to one file, also while Forkline is running.")
# It copies the database as it is, without preparing the data folder.
MAKES_READY = False


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "file", type=NEW_FILE, metavar="FILE", help=_("The copy to write. It must not exist yet.")
    )


def handle(options: Mapping[str, Any]) -> Output:
    """The path and size of the copy. Raises CommandError and DataFolderFailure."""
    refuse_copies()
    if options["file"] == "-":
        raise CommandError(_("A backup cannot be written to standard output. Name a file."))
    copy, database = Path(options["file"]).expanduser().absolute(), database_path()
    if not database.exists():
        raise DataFolderFailure(_("There is no database in %(path)s.") % {"path": database.parent})
    copy_database(database, copy)
    size = copy.stat().st_size
    text = _("The database was copied to %(path)s (%(size)s).")
    return Output({"path": str(copy), "size": size}, [text % {"path": copy, "size": short_size(size)}])
