"""What a share link leads to: exactly one run, checkpoint, comparison, search or job."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.utils.translation import gettext as _

from viewer.comparison.references import Reference, checkpoint_of, reference_in, reference_to
from viewer.comparison.sides import MAX_SIDES
from viewer.comparison.sweeps import members_of
from viewer.importing import import_run
from viewer.models import Checkpoint, Job, Run, ShareLink, Sweep, uuid_of
from viewer.search.filters import Filters, filters_from

Kind = ShareLink.Kind
# Characters of a target.
MAX_TARGET = 8_000


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of an object and what names it: the ids of a run or job, or the query of an address."""

    kind: ShareLink.Kind
    target: str

    @property
    def path(self) -> str:
        """The subject as one part of a URL."""
        return urlsafe_base64_encode(f"{self.kind}:{self.target}".encode())


@dataclass(frozen=True, slots=True)
class Shared:
    """An existing object. Only the fields of its kind are set, ``run`` for checkpoints as well."""

    subject: Subject
    title: str
    # The keys of its locations; none for a search, which finds whatever its maker may see.
    locations: tuple[int, ...] = ()
    run: Run | None = None
    checkpoint: Checkpoint | None = None
    sides: Sequence[tuple[Reference, Checkpoint]] = ()
    filters: Filters | None = None
    job: Job | None = None

    @property
    def has_picture(self) -> bool:
        """Whether a chat can show a picture: only a run covers a lineage."""
        return self.run is not None and self.checkpoint is None


def subject_in(kind: str, target: str) -> Subject | None:
    """Return the subject that these values of an address name; None if they name none."""
    is_text = target.isprintable() and 0 < len(target) <= MAX_TARGET
    return Subject(Kind(kind), target) if kind in Kind.values and is_text else None


def subject_at(path: str) -> Subject | None:
    """Return the subject of this part of a URL; None if it is none."""
    try:
        kind, _colon, target = urlsafe_base64_decode(path).decode().partition(":")
    except ValueError:
        return None
    return subject_in(kind, target)


def find_shared(subject: Subject) -> Shared | None:
    """Return what the subject names; None if it does not exist."""
    return RESOLVERS[subject.kind](subject)


def _run(subject: Subject) -> Shared | None:
    run = _imported_run(subject.target)
    return Shared(subject, str(run), (run.location_id,), run=run) if run else None


def _imported_run(text: str) -> Run | None:
    if (uid := uuid_of(text)) is None:
        return None
    runs = Run.objects.select_related("location__project", "parent").filter(uid=uid)
    run = runs.first()
    return runs.first() if run and import_run(run).is_news else run


def _checkpoint(subject: Subject) -> Shared | None:
    reference = reference_in(subject.target)
    checkpoint = checkpoint_of(reference) if reference and reference.checkpoint else None
    if checkpoint is None:
        return None
    title = f"{checkpoint.run}, {checkpoint.branch}"
    return Shared(subject, title, (checkpoint.location_id,), run=checkpoint.run, checkpoint=checkpoint)


def _comparison(subject: Subject) -> Shared | None:
    """Return a comparison of checkpoints: branches, runs and sweeps become those that they are now."""
    query = parse_qs(subject.target, max_num_fields=4 * MAX_SIDES)
    texts = [*query.get("a", [])[:1], *_members(query.get("sweep", [""])[0]), *query.get("b", [])]
    references = [reference_in(text) for text in dict.fromkeys(texts[:MAX_SIDES])]
    found = [checkpoint_of(one) if one else None for one in references]
    rows = {row.pk: row for row in found if row}
    if None in found or len(rows) < 2:
        return None
    sides = [(reference_to(row), row) for row in rows.values()]
    first, *others = [str(reference) for reference, _row in sides]
    target = urlencode([("a", first), *(("b", other) for other in others)])
    title = _("%(run)s: %(branches)s") % {
        "run": sides[0][1].run,
        "branches": ", ".join(dict.fromkeys(row.branch for row in rows.values())),
    }
    locations = tuple(sorted({row.location_id for row in rows.values()}))
    return Shared(Subject(Kind.COMPARISON, target), title, locations, sides=sides)


def _members(text: str) -> list[str]:
    uid = uuid_of(text)
    sweep = Sweep.objects.select_related("checkpoint__run").filter(pk=uid).first() if uid else None
    return list(members_of(sweep)) if sweep else []


def _search(subject: Subject) -> Shared | None:
    query = parse_qs(subject.target, max_num_fields=100)
    filters = filters_from({name: values[0] for name, values in query.items()})
    if not filters:
        return None
    return Shared(
        Subject(Kind.SEARCH, filters.query), filters.q or _("Filtered checkpoints"), filters=filters
    )


def _job(subject: Subject) -> Shared | None:
    uid, related = uuid_of(subject.target), ("run", "location", "checkpoint", "project")
    job = Job.objects.select_related(*related).filter(pk=uid).first() if uid else None
    return Shared(subject, str(job), (job.location_id,), job=job) if job else None


RESOLVERS: dict[ShareLink.Kind, Callable[[Subject], Shared | None]] = {
    Kind.RUN: _run,
    Kind.CHECKPOINT: _checkpoint,
    Kind.COMPARISON: _comparison,
    Kind.SEARCH: _search,
    Kind.JOB: _job,
}
