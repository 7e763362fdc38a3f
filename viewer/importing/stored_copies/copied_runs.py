"""Which runs of indexed locations have stored copies: those that people have forked or annotated."""

from django.db.models import Q, QuerySet

from viewer.importing.addresses import is_indexed
from viewer.models import Annotation, Checkpoint, Job, Location, Run


def copied_runs() -> list[Run]:
    """Return the outermost runs whose checkpoints are copied.

    These are runs with a fork of one of their checkpoints, or with an annotation of the run, of a branch or
    of a checkpoint. Forks and annotations of a called run count for the outermost one.
    """
    found = dict[int, Run]()
    for location in Location.objects.exclude(store_kind=Location.StoreKind.JSON):
        if is_indexed(location):
            for run in location.runs.filter(pk__in=_chosen(location)).select_related("location__project"):
                found[run.outermost.pk] = run.outermost
    return list(found.values())


def first_to_copy(location: Location, runs: list[int]) -> QuerySet[Checkpoint]:
    """Return the forked and annotated checkpoints of these runs, whose ancestors are copied first."""
    written = Annotation.objects.filter(location_uid=location.uid)
    ids = written.exclude(checkpoint_id="").values("checkpoint_id")
    branches = written.exclude(branch="").values("branch")
    is_annotated = Q(checkpoint_id__in=ids) | Q(is_branch_head=True, branch__in=branches)
    return Checkpoint.objects.filter(is_annotated | Q(pk__in=_forked(location)), run__in=runs)


def _chosen(location: Location) -> set[int]:
    """Return the primary keys of the runs that were forked or annotated, called runs included."""
    written = Annotation.objects.filter(location_uid=location.uid)
    keys = written.exclude(run_key="").values("run_key")
    ids = written.exclude(checkpoint_id="").values("checkpoint_id")
    checkpoints = location.checkpoints.filter(Q(checkpoint_id__in=ids) | Q(pk__in=_forked(location)))
    return {
        *location.runs.filter(key__in=keys).order_by().values_list("pk", flat=True),
        *checkpoints.order_by().values_list("run_id", flat=True).distinct(),
    }


def _forked(location: Location) -> QuerySet[Job, int | None]:
    """Return the primary keys of the checkpoints that were forked."""
    forks = location.jobs.filter(kind=Job.Kind.FORK).exclude(checkpoint=None)
    return forks.order_by().values_list("checkpoint_id", flat=True)
