"""``manage.py checkpoints move``."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import ADDRESS
from viewer.cli.output import Output
from viewer.data_folder.moving import move
from viewer.databases import parameters_in, postgresql_database, sqlite_database
from viewer.formats import count_text

HELP = gettext_lazy("Move all rows to PostgreSQL, or back to SQLite, while Forkline is stopped.")
# A retired database is never made ready again, but the move that retired it may have to be completed.
MAKES_READY = False
SQLITE = "sqlite"


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--to",
        type=ADDRESS,
        required=True,
        metavar="DATABASE",
        help=_("An empty PostgreSQL database, postgresql://USER@HOST/NAME; or sqlite, for the data folder."),
    )


def handle(options: Mapping[str, Any]) -> Output:
    """The number of rows of each table. Raises CommandError and DataFolderFailure."""
    if options["to"] == SQLITE:
        moved = move(sqlite_database(settings.DATA_DIR), {"DATABASE_URL": "", "DATABASE_DIRECT_URL": ""})
        start = _("Start Forkline without DATABASE_URL.")
    else:
        try:
            database = postgresql_database(parameters_in(options["to"]), has_pooler=False)
        except ValueError as error:
            raise CommandError(f"--to {error}") from None
        moved = move(database, {"DATABASE_URL": options["to"], "DATABASE_DIRECT_URL": ""})
        start = _("Start Forkline with DATABASE_URL set to this database.")
    text = _("Moved %(rows)s rows of %(tables)s tables, and compared them.")
    rows = count_text(sum(moved.rows.values()))
    lines = [text % {"rows": rows, "tables": count_text(len(moved.rows))}, start]
    if moved.kept:
        lines.append(_("The former database is kept at %(path)s.") % {"path": moved.kept})
    document = {"rows": moved.rows, "kept": str(moved.kept) if moved.kept else None}
    return Output(document, lines)
