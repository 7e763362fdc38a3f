"""The exact list of what would be deleted, and what is protected."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from django.db.models import Q
from django.utils import timezone

from viewer.importing import is_indexed
from viewer.messages.message import UserMessage
from viewer.models import Annotation, Checkpoint, Location
from viewer.pruning.rules import Rules
from viewer.redaction.marker import MARKER
from viewer.stores.protocol import Entry


class Protected(StrEnum):
    """Why a checkpoint stays although the rules hold for it."""

    FORK_POINT = "fork_point"
    ANNOTATED = "annotated"
    NEWEST = "newest"
    IN_USE = "in_use"
    NO_COPY = "no_copy"
    HIDDEN_NAME = "hidden_name"


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would be deleted of a location, oldest first, and how many checkpoints stay for each reason.

    With ``deletes_copies``, the stored copies of ``rows`` are deleted, too, and those of ``pruned``, which
    are no longer at their source.
    """

    location: Location
    rows: Sequence[Checkpoint] = ()
    protected: dict[Protected, int] = field(default_factory=dict)
    pruned: Sequence[Checkpoint] = ()
    deletes_copies: bool = False

    @property
    def digest(self) -> str:
        """A text that changes with the location, the list, or the bytes of what is listed."""
        lines = [self.location.path, self.location.identity]
        lines += [f"{row.source_key}\0{row.fingerprint}" for row in self.rows]
        if self.deletes_copies:
            # No key has an empty line: it separates what is deleted at its source from copies alone.
            lines += ["", "copies", *(f"{row.source_key}\0{row.fingerprint}" for row in self.pruned)]
        return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()

    @property
    def listed(self) -> int:
        """How many checkpoints it lists in all."""
        return len(self.rows) + len(self.pruned)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(row.size for row in self.rows)

    @property
    def entries(self) -> list[Entry]:
        return [Entry(row.source_key, row.fingerprint, row.size) for row in self.rows]


def is_prunable(location: Location) -> bool:
    """Whether checkpoints of this location can be deleted at their source.

    Of others, only the stored copies of checkpoints that are no longer there can be deleted.
    """
    is_supported = not is_indexed(location) and location.store_kind != Location.StoreKind.POSTGRESQL
    return is_supported and not is_gone(location)


def is_gone(location: Location) -> bool:
    """Whether the file or folder of a location no longer exists. False if that cannot be known."""
    if not location.is_local:
        return False
    try:
        Path(location.path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def states_without_source(location: Location) -> list[Checkpoint.State]:
    """The states of checkpoints that are no longer at their source, of which there may be a stored copy."""
    return [Checkpoint.State.PRUNED, *([Checkpoint.State.PRESENT] if is_gone(location) else [])]


def prune_blocker(location: Location, rules: Rules) -> UserMessage | None:
    """Why nothing of a location can be pruned by these rules; None if it can."""
    gone = is_gone(location)
    if gone and not rules.copies:
        return UserMessage("prune.gone")
    if not is_prunable(location) and not rules.copies:
        return UserMessage("prune.engine_not_supported")
    if not gone and (location.read_error or (location.is_local and not location.identity)):
        return UserMessage("prune.unreadable")
    if location.jobs.unfinished().exists():
        return UserMessage("prune.job_unfinished")
    return None


def plan_prune(location: Location, rules: Rules) -> PrunePlan:
    """What these rules would delete of a location, as its rows have it. Empty without a rule."""
    if rules.is_empty:
        return PrunePlan(location)
    now, newer = timezone.now(), defaultdict[tuple[int, str], int](int)
    rows, pruned, stays = list[Checkpoint](), list[Checkpoint](), defaultdict[Protected, int](int)
    in_use, forked, written_about = _in_use(location), _fork_points(location), _annotated(location)
    gone = is_gone(location)
    copies = set(
        location.checkpoints.filter(stored_copy__isnull=False).order_by().values_list("pk", flat=True)
    )
    sourceless = states_without_source(location) if rules.copies else []
    states = {*sourceless, *([Checkpoint.State.PRESENT] if is_prunable(location) else [])}
    for row in location.checkpoints.filter(state__in=states).select_related("run").order_by("run", "-row"):
        index = newer[row.run_id, row.branch]
        newer[row.run_id, row.branch] += not row.is_pruned
        if row.is_scratch or not rules.holds(row, index, now) or (gone and row.pk not in copies):
            continue
        reason = None
        if written_about & _subjects(row):
            reason = Protected.ANNOTATED
        elif not gone:
            # From the checkpoints of a location that is gone, nothing continues.
            reason = _why_protected(row, rules, forked, in_use, copies)
        if reason is None:
            (pruned if row.state in sourceless else rows).append(row)
        else:
            stays[reason] += 1
    for found in (rows, pruned):
        found.sort(key=lambda row: (row.created_at or now, row.source_key))
    return PrunePlan(location, rows, dict(stays), pruned, rules.copies)


def _why_protected(
    row: Checkpoint, rules: Rules, forked: set[int], in_use: set[int], copies: set[int]
) -> Protected | None:
    if row.pk in forked:
        return Protected.FORK_POINT
    if row.pk in in_use:
        return Protected.IN_USE
    if row.is_branch_head and not rules.branch:
        return Protected.NEWEST
    # Without a stored copy, deleting it would lose it.
    if row.pk not in copies:
        return Protected.NO_COPY
    return Protected.HIDDEN_NAME if MARKER in row.source_key else None


def _annotated(location: Location) -> set[tuple[str, str, str]]:
    """What people wrote about: run, branch and checkpoint, where what does not apply is empty."""
    found = Annotation.objects.filter(location_uid=location.uid)
    return {(one.run_key, one.branch, one.checkpoint_id) for one in found if not one.is_empty}


def _subjects(row: Checkpoint) -> set[tuple[str, str, str]]:
    """What protects a checkpoint if somebody wrote about it; for the newest of a branch, that branch too."""
    subjects = {("", "", row.checkpoint_id)}
    if row.is_branch_head:
        subjects |= {(row.run.key, row.branch, ""), (row.run.key, "", "")}
    return subjects


def _fork_points(location: Location) -> set[int]:
    """The checkpoints from which more than one branch or checkpoint continues."""
    children, found = Counter[int](), set[int]()
    linked = location.checkpoints.exclude(parent=None).order_by()
    for parent, branch, branch_of_parent in linked.values_list("parent_id", "branch", "parent__branch"):
        children[parent] += 1
        if children[parent] > 1 or branch != branch_of_parent:
            found.add(parent)
    return found


def _in_use(location: Location) -> set[int]:
    """The checkpoints that jobs started from, or that a sweep compares."""
    used = location.checkpoints.filter(Q(jobs__isnull=False) | Q(sweeps__isnull=False))
    return set(used.order_by().values_list("pk", flat=True))
