"""What a checkpoint may be compared with: listed if an address names only one side."""

from dataclasses import dataclass, replace

from django.db.models import Max, Q
from django.utils.translation import gettext as _

from viewer.annotations import named
from viewer.comparison.references import Reference, reference_to
from viewer.comparison.sides import Side
from viewer.models import Checkpoint, Run
from viewer.presentation.run.triggers import title_of

# How many of each kind are listed.
MAX_OFFERED = 30


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of them, with a heading. ``key`` is the row of a checkpoint, None of a run."""

    reference: Reference
    heading: str
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates of one kind."""

    label: str
    found: tuple[Candidate, ...]


def candidates_for(side: Side) -> list[Candidates]:
    """Its ancestors, the branches of its run, and the newest runs with its name."""
    groups = [
        Candidates(_("Ancestors"), tuple(map(_of_checkpoint, _ancestors(side)))),
        Candidates(_("Branches of this run"), tuple(map(_of_checkpoint, _heads(side)))),
        Candidates(_("Other runs"), tuple(map(_of_run, _other_runs(side)))),
    ]
    return [group for group in groups if group.found]


def candidates_like(text: str) -> list[Candidates]:
    """The runs and checkpoints of all locations that this text names, or whose ids begin with it."""
    words = text.split()
    runs = Run.objects.top_level().select_related("location")
    rows = Checkpoint.objects.select_related("run", "parent").order_by("-created_at")
    for word in words:
        is_named = Q(name__icontains=word) | Q(key__startswith=word) | Q(location__path__icontains=word)
        runs = runs.filter(is_named | Q(pk__in=named(Run.objects.all(), word).values("pk")))
        of_run = Q(run__name__icontains=word) | Q(run__location__path__icontains=word)
        rows = rows.filter(Q(checkpoint_id__startswith=word) | Q(branch__icontains=word) | of_run)
    groups = [
        Candidates(_("Runs"), tuple(_of_run_anywhere(run) for run in runs[:MAX_OFFERED])),
        Candidates(_("Checkpoints"), tuple(_of_checkpoint_anywhere(row) for row in rows[:MAX_OFFERED])),
    ]
    return [group for group in groups if group.found and words]


def _of_run_anywhere(run: Run) -> Candidate:
    found = _of_run(run)
    return replace(found, heading=f"{found.heading}, {run.location.parent_name}/{run.location.name}")


def _of_checkpoint_anywhere(row: Checkpoint) -> Candidate:
    found = _of_checkpoint(row)
    return replace(found, heading=f"{row.run}, {found.heading}")


def _ancestors(side: Side) -> list[Checkpoint]:
    """The parent and the checkpoint at which the branch began."""
    line = side.line[:-1]
    origin = [one.pk for one in line if one.branch != side.checkpoint.branch][-1:]
    keys = {*(one.pk for one in line[-1:]), *origin}
    return list(Checkpoint.objects.filter(pk__in=keys).select_related("run", "parent"))


def _heads(side: Side) -> list[Checkpoint]:
    """The newest checkpoint of each other branch, the last written first."""
    rows = side.checkpoint.run.checkpoints.exclude(pk=side.checkpoint.pk).order_by()
    newest = rows.values_list("branch").annotate(newest=Max("row")).order_by("-newest")[:MAX_OFFERED]
    found = side.checkpoint.run.checkpoints.filter(row__in=[row for _branch, row in newest])
    return list(found.select_related("run", "parent").order_by("-row"))


def _other_runs(side: Side) -> list[Run]:
    run = side.checkpoint.run
    alike = Run.objects.top_level().filter(location=run.location, name=run.name).exclude(pk=run.pk)
    return list(alike[:MAX_OFFERED])


def _of_checkpoint(checkpoint: Checkpoint) -> Candidate:
    heading = f"{checkpoint.branch}, {title_of(checkpoint)}"
    return Candidate(reference_to(checkpoint), heading, checkpoint.pk)


def _of_run(run: Run) -> Candidate:
    started = f", {run.first_at:%Y-%m-%d %H:%M:%S}" if run.first_at else ""
    return Candidate(Reference(run.uid), f"{run}{started}")
