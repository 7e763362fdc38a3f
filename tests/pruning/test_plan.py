"""What is listed, and what is protected."""

from pathlib import Path

import pytest

from viewer.host.locations.importing import import_location
from viewer.host.locations.pruning import Protected, plan_prune, prune
from viewer.host_requests import PruneRefused, PruneRules
from viewer.models import Annotation, Checkpoint, Job, Location, StoredCopy


def files(location: Location) -> set[str]:

    root = Path(location.path)
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_without_a_rule_nothing_is_listed(folder: Location) -> None:
    assert plan_prune(folder, PruneRules()).rows == ()


def test_fork_points_and_the_newest_of_each_branch_are_protected(folder: Location) -> None:
    plan = plan_prune(folder, PruneRules(days=0))
    fork = folder.checkpoints.filter(branch="exp-a").order_by("row").first()
    assert fork and fork.parent not in plan.rows
    assert plan.protected[Protected.FORK_POINT] == 1
    assert not any(row.is_branch_head for row in plan.rows)
    assert len(plan.rows) + sum(plan.protected.values()) == folder.checkpoints.count()


def test_rules_are_combined(folder: Location) -> None:
    every = plan_prune(folder, PruneRules(days=0)).rows
    assert {row.branch for row in plan_prune(folder, PruneRules(days=0, branch="exp-a")).rows} == {"exp-a"}
    assert len(plan_prune(folder, PruneRules(latest=3)).rows) < len(every)
    assert plan_prune(folder, PruneRules(days=36_500)).rows == []
    assert plan_prune(folder, PruneRules(branch="no such branch")).rows == []


def test_what_a_job_started_from_and_what_has_no_copy_is_protected(folder: Location) -> None:
    first, second, *_ = plan_prune(folder, PruneRules(days=0)).rows
    Job.objects.create(kind="fork", location=folder, checkpoint=first, status=Job.Status.SUCCEEDED)
    StoredCopy.objects.filter(pk=second.pk).delete()
    plan = plan_prune(folder, PruneRules(days=0))
    assert first not in plan.rows and second not in plan.rows
    assert plan.protected[Protected.IN_USE] == plan.protected[Protected.NO_COPY] == 1


def test_pruning_deletes_the_list_and_keeps_copies_and_other_files(folder: Location) -> None:

    note = Path(folder.path) / "main" / "notes.json"
    note.write_text("{}")
    Path(folder.path, "keep.txt").write_text("mine")
    before, plan = files(folder), plan_prune(folder, PruneRules(days=0))
    done = prune(folder, PruneRules(days=0), plan.digest)
    assert done.count == len(plan.rows) > 0 and not done.kept
    assert files(folder) == before - {row.source_key for row in plan.rows}
    states = set(
        folder.checkpoints.filter(pk__in=[row.pk for row in plan.rows]).values_list("state", flat=True)
    )
    assert states == {Checkpoint.State.PRUNED}
    assert StoredCopy.objects.filter(pk__in=[row.pk for row in plan.rows]).count() == len(plan.rows)


def test_another_list_than_the_confirmed_one_is_refused(folder: Location) -> None:
    before, plan = files(folder), plan_prune(folder, PruneRules(days=0))
    for rules, digest in (
        (PruneRules(latest=2), plan.digest),
        (PruneRules(days=0), "0" * 64),
        (PruneRules(days=0), ""),
    ):
        with pytest.raises(PruneRefused):
            prune(folder, rules, digest)
    assert files(folder) == before


def test_a_checkpoint_that_changed_after_the_confirmation_is_refused(folder: Location) -> None:

    plan = plan_prune(folder, PruneRules(days=0))
    path = Path(folder.path) / plan.rows[0].source_key
    path.write_text(path.read_text() + "\n")
    before = files(folder)
    with pytest.raises(PruneRefused):
        prune(folder, PruneRules(days=0), plan.digest)
    assert files(folder) == before


def test_nothing_is_pruned_while_a_job_runs(folder: Location) -> None:
    plan = plan_prune(folder, PruneRules(days=0))
    Job.objects.create(kind="run", location=folder, status=Job.Status.RUNNING)
    with pytest.raises(PruneRefused, match="has not finished"):
        prune(folder, PruneRules(days=0), plan.digest)


def test_rows_of_a_database_are_deleted_together(database: Location) -> None:
    plan = plan_prune(database, PruneRules(days=0))
    total = database.checkpoints.count()
    done = prune(database, PruneRules(days=0), plan.digest)
    assert done.count == len(plan.rows) > 0
    import_location(database)
    present = database.checkpoints.filter(state=Checkpoint.State.PRESENT)
    assert present.count() == total - done.count


def test_what_people_wrote_about_is_protected(folder: Location) -> None:
    first, *_others = plan_prune(folder, PruneRules(days=0)).rows
    Annotation.objects.create(location_uid=folder.uid, checkpoint_id=first.checkpoint_id, name="final")
    Annotation.objects.create(location_uid=folder.uid, run_key=first.run.key, branch="exp-a", is_starred=True)
    plan = plan_prune(folder, PruneRules(branch="exp-a"))
    assert not any(row.is_branch_head for row in plan.rows), "The branch has a star."
    assert first not in plan_prune(folder, PruneRules(days=0)).rows
    assert plan.protected[Protected.ANNOTATED] == 1
