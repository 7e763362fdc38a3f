"""How one output or value of the state changed along the ancestors of a checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from viewer.engines import engine_of
from viewer.engines.editable import MISSING
from viewer.models import Checkpoint
from viewer.presentation.comparison import Detail, detail_of, row_of
from viewer.presentation.comparison_sides import nearest_ancestors
from viewer.presentation.diff import Clock
from viewer.presentation.run.branches import edited_checkpoints
from viewer.records.bodies import bodies_of

# How many checkpoints one part of a history reads, and of how many bytes, both at their source.
MAX_READ, MAX_BYTES = 60, 64 * 1024 * 1024
# Characters of both sides of one change, and seconds in which the changes of a part are compared.
MAX_SHOWN, DIFF_SECONDS = 60_000, 2.0


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A checkpoint whose value differs from that of its parent.

    ``edit`` is what the fork edited that begins here. ``is_inexact`` if it may have changed before, in a
    checkpoint that is missing or cannot be read.
    """

    checkpoint: Checkpoint
    detail: Detail
    edit: str = ""
    is_fork: bool = False
    is_inexact: bool = False

    @property
    def is_first(self) -> bool:
        """Whether the value did not exist before."""
        return self.detail.row.cells[0].is_missing

    @property
    def is_removal(self) -> bool:
        """Whether the value does not exist afterwards."""
        return self.detail.row.cells[1].is_missing


@dataclass(frozen=True, slots=True)
class History:
    """The changes among the checkpoints that were read, newest first.

    ``read`` counts them, ``unreadable`` those of which nothing is known. ``older`` is where it continues;
    None at the start of the run.
    """

    name: str = ""
    changes: list[ValueChange] = field(default_factory=list)
    read: int = 0
    unreadable: int = 0
    older: Checkpoint | None = None


def history_of(checkpoint: Checkpoint, part: str, *, count: int = MAX_READ) -> History:
    """How the part with this id changed from this checkpoint to its ``count``-th ancestor.

    The values are those of stored copies, or are read at the source, redacted.
    """
    line = nearest_ancestors(checkpoint, count + 1)
    keys = _bounded(line)
    is_whole = len(keys) == len(line) <= count
    with_copies = Checkpoint.objects.select_related("location__project", "run", "parent", "stored_copy")
    found = with_copies.in_bulk(keys)
    rows = [found[key] for key in keys if key in found]
    names: dict[str, str] = {}
    values = _values(rows, part, names)
    known = [row for row in rows if row.pk in values]
    changes = _changes(rows, known, values, names.get(part, ""), is_whole=is_whole)
    # It is compared with its parent where the history continues.
    older = None if is_whole else known[-1] if len(known) > 1 else rows[-1]
    read = rows.index(older) if older else len(rows)
    unreadable = sum(row.pk not in values for row in rows[:read])
    return History(names.get(part, ""), changes, read, unreadable, older)


def _bounded(line: Sequence[Checkpoint]) -> list[int]:
    """The keys of the first checkpoints up to MAX_BYTES, and at least two of them."""
    taken: list[int] = []
    size = 0
    for row in line:
        size += row.size
        if len(taken) > 1 and size > MAX_BYTES:
            break
        taken.append(row.pk)
    return taken


def _values(rows: Sequence[Checkpoint], part: str, names: dict[str, str]) -> dict[int, Any]:
    """The part's value in each checkpoint that can be read; MISSING where it has none."""
    location = rows[0].location
    engine = engine_of(location)
    values: dict[int, Any] = {}
    for row, body in bodies_of(location, rows):
        if not body:
            continue
        found = next((one for one in engine.followed_parts(engine.contents_of(body)) if one.id == part), None)
        values[row.pk] = found.value if found else MISSING
        if found:
            names.setdefault(part, found.name)
    return values


def _changes(
    rows: Sequence[Checkpoint],
    known: Sequence[Checkpoint],
    values: Mapping[int, Any],
    name: str,
    *,
    is_whole: bool,
) -> list[ValueChange]:
    """The changes between the checkpoints that are known. ``is_whole`` if the rows reach the start."""
    clock, edits = Clock(DIFF_SECONDS), edited_checkpoints(rows[0].run)
    positions = {row.pk: at for at, row in enumerate(rows)}
    pairs: list[tuple[Checkpoint, Checkpoint | None]] = [*pairwise(known)]
    if known and is_whole:
        pairs.append((known[-1], None))
    changes = []
    for row, before in pairs:
        old = values[before.pk] if before else MISSING
        compared = row_of(("", name, ""), name, [old, values[row.pk]])
        if not compared.differs:
            continue
        skipped = (positions[before.pk] if before else len(rows)) - positions[row.pk] > 1
        changes.append(
            ValueChange(
                row,
                detail_of(compared, max_shown=MAX_SHOWN, clock=clock),
                edits.get(row.pk, ""),
                is_fork=before is not None and before.branch != row.branch,
                is_inexact=skipped or row.parent_link == Checkpoint.ParentLink.MISSING,
            )
        )
    return changes
