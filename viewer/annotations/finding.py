"""Find annotations for lists, and runs by their annotations."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, QuerySet

from viewer.models import Annotation, Run


@dataclass(frozen=True, slots=True)
class RunAnnotations:
    """What people wrote about a run, its branches by name, and its checkpoints by id."""

    run: Annotation | None = None
    branches: dict[str, Annotation] = field(default_factory=dict)
    checkpoints: dict[str, Annotation] = field(default_factory=dict)


def annotations_in(run: Run) -> RunAnnotations:
    """Return what was written about a run and anything in it."""
    by_branch = {one.branch: one for one in run.annotations if not one.checkpoint_id}
    checkpoints = {one.checkpoint_id: one for one in run.annotations if one.checkpoint_id}
    return RunAnnotations(by_branch.pop("", None), by_branch, checkpoints)


def annotations_of_runs(runs: Iterable[Run]) -> dict[int, Annotation]:
    """Return what was written about these runs, by their primary keys. Takes one query."""
    pks = [run.pk for run in runs]
    found = Annotation.objects.filter(branch="", checkpoint_id="").exclude(run_key="")
    keyed = {(one.location_uid, one.run_key): one for one in found}
    if not keyed:
        return {}
    rows = Run.objects.filter(pk__in=pks).order_by().values_list("pk", "location__uid", "key")
    return {pk: keyed[uid, key] for pk, uid, key in rows if (uid, key) in keyed}


def starred(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return those of these runs that have a star, themselves or on a branch."""
    return runs.filter(Exists(_own().filter(is_starred=True)))


def labelled(runs: QuerySet[Run], label: str) -> QuerySet[Run]:
    """Return those of these runs that have a label, themselves or on a branch."""
    return runs.filter(Exists(_own().filter(label_text__contains=f",{label},")))


def named(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Return those of these runs whose own name contains a text."""
    return runs.filter(Exists(_own().filter(branch="", name__icontains=text)))


def labels_in_use() -> list[str]:
    """Return every label of a run or branch, in order."""
    texts = Annotation.objects.exclude(label_text="").exclude(run_key="").values_list("label_text", flat=True)
    return sorted({label for text in texts for label in text.split(",") if label}, key=str.lower)


def _own() -> QuerySet[Annotation]:
    """Return the annotations of the run of an outer query and of its branches."""
    outer = {"location_uid": OuterRef("location__uid"), "run_key": OuterRef("key")}
    return Annotation.objects.filter(**outer)
