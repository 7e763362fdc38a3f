"""What the rows of a location say about it: how it is read, its problems, and its drafts."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.engines import engine_name, store_format_named
from viewer.host_requests import DraftFile
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Job, JobEvent, Location, Problem
from viewer.models.rows import in_slices
from viewer.stores.protocol import Entry, ReadLimits, ReadProblem
from viewer.validation import storable

FILE_URL = re.compile(r"file:/", re.IGNORECASE)
LOCAL_HOSTS = {"", "localhost"}
# Kinds of problems of entries that are read again even if their bytes are unchanged.
RETRIED_KINDS = (Problem.Kind.WRITING, Problem.Kind.UNAVAILABLE)


def is_indexed(location: Location) -> bool:
    """Whether a location is only indexed, because its engine's databases are too large to be copied."""
    return (
        location.store_kind != Location.StoreKind.JSON
        and store_format_named(engine_name(location)).is_indexed
    )


def keeps_files(location: Location) -> bool:
    """Whether checkpoints of this location can be deleted one by one at their source.

    Of others, only the stored copies of checkpoints that are no longer there can be deleted.
    """
    return location.is_local and location.takes_runs and not is_indexed(location)


def deletes_threads(location: Location) -> bool:
    """Whether threads can be deleted at their source, in the interpreter of a project that may run."""
    return is_indexed(location) and location.project is not None and location.project.is_confirmed


def removal_blocker(location: Location) -> str:
    """Why the location cannot be removed, as of its last import; empty if it can."""
    if location.jobs.exists():
        return _("Jobs ran here, and their records would be deleted with it.")
    # Without stored copies, only data that the source still has would be deleted.
    copies = location.checkpoints.filter(stored_copy__isnull=False).exclude(state=Checkpoint.State.NO_COPY)
    if not location.read_error:
        copies = copies.exclude(state=Checkpoint.State.PRESENT)
    if copies.exists():
        return _(
            "Some of its checkpoints can no longer be read at its path. Only their stored copies remain."
        )
    return ""


def location_named(text: str) -> Location:
    """Return the location that a person named as PATH or HOST:PATH. Raises ValidationError."""
    text = storable(text.strip())
    host, _colon, path = text.partition(":")
    found = list(Location.objects.filter(Q(path=text) | Q(host__name=host, path=path))[:2])
    if len(found) > 1:
        raise ValidationError(_("Several hosts have %(path)s. Write HOST:PATH.") % {"path": text})
    if not found:
        raise ValidationError(_("There is no location %(path)s.") % {"path": text})
    return found[0]


class NotLocal(ValueError):
    """The URL does not name a file on this machine. The message is for a person."""


def path_of(text: str | Path) -> Path:
    """The path that a person typed, as a path or a ``file://`` URL. Raises NotLocal."""
    if isinstance(text, Path) or not FILE_URL.match(text):
        return Path(text)
    try:
        url = urlsplit(text)
    except ValueError:
        raise NotLocal(_("This path cannot be opened.")) from None
    if url.netloc.lower() not in LOCAL_HOSTS:
        raise NotLocal(
            _("%(url)s names a file on the host %(host)s. Only files on this machine can be opened.")
            % {"url": text, "host": url.netloc}
        )
    if url.query or url.fragment:
        raise NotLocal(_("%s is not a path. Write ? and # in a file name as %%3F and %%23.") % text)
    return Path(unquote_to_bytes(url.path).decode("utf-8", "surrogateescape"))


@dataclass(slots=True)
class _Stored:
    pk: int
    reason: UserMessage
    kind: str
    fingerprint: str
    first_seen_at: datetime


class Problems:
    """The problems of a location, or of some of its keys, before and after an import."""

    def __init__(self, location: Location, limits: ReadLimits, keys: Collection[str] | None = None) -> None:
        self._location, self._limits = location, limits
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
        if known is None or known.kind in RETRIED_KINDS:
            return False
        if known.fingerprint != self._stored_fingerprint(entry.fingerprint, known.kind):
            return False
        self._after[entry.key] = known
        return True

    def add(self, problem: ReadProblem) -> None:
        """Add a problem. An entry that does not parse counts as being written until it stays unchanged."""
        before = self._before.get(problem.key)
        mark = self._stored_fingerprint(problem.fingerprint, problem.kind)
        is_same = before is not None and before.fingerprint == mark
        first_seen_at = before.first_seen_at if before and is_same else self._now
        kind, reason = problem.kind, problem.reason
        if kind == "writing" and self._is_unchanged(problem, first_seen_at):
            kind = "broken"
        elif kind == "writing":
            reason = UserMessage("import.being_written", {"why": reason})
        self._after[problem.key] = _Stored(before.pk if before else 0, reason, kind, mark, first_seen_at)

    def _stored_fingerprint(self, fingerprint: str, kind: str) -> str:
        """The stored fingerprint of a problem. Includes the limits, since larger ones may allow the entry."""
        return f"{fingerprint} {self._limits.mark}" if kind == Problem.Kind.REFUSED else fingerprint

    def _is_unchanged(self, problem: ReadProblem, first_seen_at: datetime) -> bool:
        """Whether the entry has been unchanged for CHECKPOINT_UNCHANGED_SECONDS."""
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
            update_fields=["reason", "kind", "fingerprint", "first_seen_at"],
        )
        return is_news


# Drafts: forks in the scratch stores of their jobs, which hold real values and are deleted when unneeded.


@dataclass(frozen=True, slots=True)
class Draft:
    """A scratch store. ``job`` is None if its row is gone.

    ``removed_at`` is when it may be deleted: None while its job runs, and as long as it may be published.
    """

    job: Job | None
    written_at: datetime
    size: int
    checkpoints: int
    removed_at: datetime | None


def drafts_of(stored: Sequence[DraftFile]) -> list[Draft]:
    """Return what these scratch stores hold, in the same order, and when they are deleted."""
    names = [one.job for one in stored]
    jobs = {str(job.pk): job for job in Job.objects.filter(pk__in=names).select_related("run", "location")}
    return [_draft_of(one, jobs.get(one.job)) for one in stored]


def _draft_of(stored: DraftFile, job: Job | None) -> Draft:
    prefix = Checkpoint.scratch_prefix(stored.job)
    locations = Location.objects.filter(pk=job.location_id) if job else Location.objects.all()
    # A range of keys, unlike a search for a prefix, uses the index. "0" follows "/".
    keys = {"source_key__gte": prefix, "source_key__lt": f"{prefix[:-1]}0"}
    count = Checkpoint.objects.filter(location__in=locations.values("pk"), **keys).count()
    return Draft(job, stored.written_at, stored.size, count, _removal(stored, job, count))


def _removal(stored: DraftFile, job: Job | None, checkpoints: int) -> datetime | None:
    """Return when a scratch store is no longer needed; None if that is not known yet."""
    later = timedelta(days=settings.SCRATCH_DAYS)
    if job is None:
        # Its row may be in a backup that is restored later.
        return stored.written_at + later
    if not job.has_ended or job.ended_at is None:
        return None
    if job.run_id is None:
        return job.ended_at
    if checkpoints and not publications_of(job.pk).exists():
        return None
    return job.ended_at + later


def publications_of(job: object) -> QuerySet[JobEvent]:
    """Return the events of a job, and of later jobs, that say as which runs its draft was published."""
    prefix = Checkpoint.scratch_prefix(job)
    later = Job.objects.filter(kind=Job.Kind.PUBLISH, checkpoint__source_key__startswith=prefix)
    return JobEvent.objects.filter(kind="published", job__in=[job, *later.values_list("pk", flat=True)])
