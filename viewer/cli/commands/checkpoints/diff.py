"""``manage.py checkpoints diff``."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.edits import CHECKPOINT
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Output
from viewer.cli.rows import checkpoint_document
from viewer.engines.editable import MISSING
from viewer.formats import count_text
from viewer.messages.translation import translate
from viewer.presentation.comparison import SECTIONS, ComparedRow, changed_lines, table_of
from viewer.presentation.comparison_references import reference_to
from viewer.presentation.comparison_sides import compared_checkpoints

HELP = gettext_lazy(
    "Compare two checkpoints. Exits with 0 if their contents are equal, 1 if they differ, and 2 on an error."
)
# As of diff(1).
FAILED = 2


def add_arguments(parser: CommandParser) -> None:
    for name in ("a", "b"):
        parser.add_argument(
            name,
            type=CHECKPOINT,
            metavar=name.upper(),
            help=_("A checkpoint as LOCATION#ID, or a checkpoint's file. A is the baseline."),
        )


def handle(options: Mapping[str, Any]) -> Output:
    """What differs between the contents of both, after an import of their locations. Raises CommandError."""
    try:
        found = [checkpoint_at(options[name]) for name in ("a", "b")]
    except CommandError as error:
        error.returncode = FAILED
        raise
    compared = compared_checkpoints([(reference_to(one), one) for one in found])
    for side in compared.sides:
        if side.problem:
            raise CommandError(translate(side.problem), returncode=FAILED)
    rows = [row for group in table_of(compared.sides, shows_same=True) for row in group.rows if row.section]
    differing = [row for row in rows if row.differs]
    document = {
        **dict(zip("ab", map(checkpoint_document, found), strict=True)),
        "common_ancestor": compared.ancestor.checkpoint_id if compared.ancestor else None,
        "differs": bool(differing),
        "rows": [_row_document(row) for row in rows],
    }
    return Output(document, list(_lines(rows)), status=int(bool(differing)))


def _row_document(row: ComparedRow) -> dict[str, Any]:
    """A row; the values of a row that is the same are not repeated, and missing ones are left out."""
    document = {"section": row.section, "name": row.name, "same": not row.differs}
    if row.differs:
        values = zip("ab", row.cells, strict=True)
        document |= {name: cell.value for name, cell in values if cell.value is not MISSING}
    return document


def _lines(rows: list[ComparedRow]) -> Iterator[str]:
    for row in rows:
        if row.differs:
            yield f"{SECTIONS[row.section]}: {row.name}"
            yield from (f"  {line}" for line in changed_lines(*(cell.value for cell in row.cells)))
    same = sum(not row.differs for row in rows)
    yield ngettext("%(count)s value is the same.", "%(count)s values are the same.", same) % {
        "count": count_text(same)
    }
