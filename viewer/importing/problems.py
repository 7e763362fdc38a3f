"""The problems of a location: files and rows that cannot be imported, stored with their reasons."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from viewer.importing.addresses import read_limits
from viewer.importing.reconciling.rows import in_slices
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Location, Problem
from viewer.stores.protocol import Entry, ReadProblem


@dataclass(slots=True)
class _Stored:
    pk: int
    reason: UserMessage
    kind: str
    fingerprint: str
    first_seen_at: datetime


_COLUMNS = ("reason", "kind", "fingerprint", "first_seen_at")
# Kinds that are read again even if the bytes are unchanged.
_RETRIED_KINDS = (Problem.Kind.WRITING, Problem.Kind.UNAVAILABLE)


def _stored_fingerprint(fingerprint: str, kind: str) -> str:
    """The stored fingerprint of a problem. Includes the limits, since larger ones may allow the entry."""
    return f"{fingerprint} {read_limits().mark}" if kind == Problem.Kind.REFUSED else fingerprint


class Problems:
    """The problems of a location, or of some of its keys, before and after an import."""

    def __init__(self, location: Location, keys: Collection[str] | None = None) -> None:
        self._location = location
        rows = Problem.objects.filter(location=location)
        if keys is not None:
            rows = rows.filter(source_key__in=keys)
        self._before = {
            row.source_key: _Stored(row.pk, row.reason, row.kind, row.fingerprint, row.first_seen_at)
            for row in rows
        }
        self._after: dict[str, _Stored] = {}
        self._now = timezone.now()

    def __len__(self) -> int:
        return len(self._after)

    def is_known(self, entry: Entry) -> bool:
        """Whether these bytes are known not to be a checkpoint, so that they are not read again."""
        known = self._before.get(entry.key)
        if known is None or known.kind in _RETRIED_KINDS:
            return False
        if known.fingerprint != _stored_fingerprint(entry.fingerprint, known.kind):
            return False
        self._after[entry.key] = known
        return True

    def add(self, problem: ReadProblem) -> None:
        """Add a problem. An entry that does not parse counts as being written until it stays unchanged."""
        before = self._before.get(problem.key)
        mark = _stored_fingerprint(problem.fingerprint, problem.kind)
        is_same = before is not None and before.fingerprint == mark
        first_seen_at = before.first_seen_at if before and is_same else self._now
        kind, reason = problem.kind, problem.reason
        if kind == "writing" and self._is_unchanged(problem, first_seen_at):
            kind = "broken"
        elif kind == "writing":
            reason = UserMessage("import.being_written", {"why": reason})
        self._after[problem.key] = _Stored(before.pk if before else 0, reason, kind, mark, first_seen_at)

    def _is_unchanged(self, problem: ReadProblem, first_seen_at: datetime) -> bool:
        """Whether the entry has been unchanged for CHECKPOINT_SETTLED_SECONDS."""
        now = self._now.timestamp()
        since = first_seen_at.timestamp()
        if problem.changed_at is not None and problem.changed_at <= now:
            since = min(since, problem.changed_at)
        return now - since >= settings.CHECKPOINT_UNCHANGED_SECONDS

    def state_after(self, problem: ReadProblem) -> Checkpoint.State | None:
        """The new state of a present checkpoint that has this problem now; None if unchanged."""
        kind = self._after[problem.key].kind
        if kind == Problem.Kind.UNAVAILABLE:
            return None
        return Checkpoint.State.WRITING if kind == Problem.Kind.WRITING else Checkpoint.State.BROKEN

    def retried_keys(self) -> set[str]:
        """The keys of problems whose entries the next import reads again."""
        return {key for key, known in self._after.items() if known.kind in _RETRIED_KINDS}

    def save(self) -> bool:
        """Store the changes. Return whether a page has to be refreshed."""
        gone = [known.pk for key, known in self._before.items() if key not in self._after]
        for some in in_slices(gone):
            Problem.objects.filter(pk__in=some).delete()
        is_news = bool(gone)
        changed = [(key, known) for key, known in self._after.items() if self._before.get(key) != known]
        for key, known in changed:
            before = self._before.get(key)
            is_news |= before is None or (before.reason, before.kind) != (known.reason, known.kind)
        rows = [
            Problem(
                location=self._location,
                source_key=key,
                reason=known.reason,
                kind=known.kind,
                fingerprint=known.fingerprint,
                first_seen_at=known.first_seen_at,
            )
            for key, known in changed
        ]
        # A location may have hundreds of thousands of problems.
        Problem.objects.bulk_create(
            rows,
            batch_size=500,
            update_conflicts=True,
            unique_fields=["location", "source_key"],
            update_fields=_COLUMNS,
        )
        return is_news
