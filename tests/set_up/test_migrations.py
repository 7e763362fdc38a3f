"""Rows of the previous version keep their values under new names, and their messages get codes."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps.registry import Apps

from tests.migrating import database_after, migrate_to_newest
from viewer.messages.message import UserMessage
from viewer.models import (
    AcceptedEffect,
    Checkpoint,
    Job,
    Location,
    PreflightCheck,
    Problem,
    Run,
    accept_effects,
)

TOO_LARGE = {
    "text": "It has %(size)s bytes, more than the %(most)s that are read.",
    "values": {"size": "9", "most": "5"},
}


@pytest.fixture
def migrated(transactional_db: None, tmp_path: Path) -> Iterator[None]:
    """Use a migrated database of an earlier version with a row of each renamed kind."""
    with database_after("0009_known_secrets", tmp_path) as models:
        fill(models)
        migrate_to_newest()
        yield


def fill(apps: Apps) -> None:
    def create(model: str, /, **values: Any) -> Any:
        return apps.get_model("viewer", model)._default_manager.create(**values)

    project = create("Project", folder="/srv/project", interpreter="/srv/python")
    unreadable = "There is nothing at this path."
    location = create(
        "Location", uid=uuid.uuid4(), path="/srv/checkpoints", provider="json", unreadable=unreadable
    )
    fill_run(create, location)
    fill_problems(create, location)
    create("Look", project=project, status="looking", fingerprint="f", report={"parts": [1]})
    create(
        "Job",
        location=location,
        kind="run",
        status="failed",
        error="ValueError: no",
        asked="digest",
        steps=3,
        request={"location": {"path": "/srv/checkpoints", "provider": "json"}},
        stopped_by={"whose": "variations", "measure": "steps", "most": 3},
        variations=create("Variations", name="tones"),
    )


def fill_run(create: Callable[..., Any], location: Any) -> None:
    run = create("Run", location=location, uid=uuid.uuid4(), key="r", entity="flow", methods_known=3)
    for kind in ("flow", "crew"):
        values = {"key": f"{kind}.json", "entity": kind, "tasks_done": 1, "tasks_total": 2}
        create("Checkpoint", location=location, run=run, **values)


def fill_problems(create: Callable[..., Any], location: Any) -> None:
    create(
        "Problem",
        location=location,
        key="a.json",
        kind="writing",
        reason="It is still being written. It has 9 bytes, more than the 5 that are read.",
        reason_words={"text": "It is still being written. %(why)s", "values": {"why": TOO_LARGE}},
    )
    create("Problem", location=location, key="b.json", kind="broken", reason="100% something else.")


@pytest.mark.usefixtures("migrated")
def test_rows_of_the_version_before_keep_their_values() -> None:
    location, job, check = Location.objects.get(), Job.objects.get(), PreflightCheck.objects.get()
    assert location.store_kind == "json" and job.request["location"]["store_kind"] == "json"
    units = Checkpoint.objects.order_by("entity").values_list("is_open_ended", "units_done", "units_total")
    assert list(units) == [(False, 1, 2), (True, 1, 2)]
    assert Run.objects.get().units_known == 3
    assert (location.engine, location.read_error) == ("crewai", UserMessage("store.nothing_at_path"))
    written, other = Problem.objects.order_by("source_key")
    large = UserMessage("store.file_too_large", {"size": "9", "most": "5"})
    assert written.reason == UserMessage("import.being_written", {"why": large})
    assert str(other.reason) == "100% something else."
    assert (str(job.error), job.request_digest, job.steps_used) == ("ValueError: no", "digest", 3)
    assert job.limit_hit["whose"] == "sweep" and job.sweep is not None and job.sweep.name == "tones"
    assert (check.status, check.error, check.report) == ("checking", None, {"components": [1]})


@pytest.mark.usefixtures("transactional_db")
def test_effects_that_were_accepted_without_their_tool_are_kept_but_do_not_count(tmp_path: Path) -> None:
    with database_after("0044_unfinished_runs", tmp_path) as models:
        project = models.get_model("viewer", "Project").objects.create(
            folder="/srv/project", interpreter="/srv/python"
        )
        models.get_model("viewer", "AcceptedEffect").objects.create(
            project=project, key="k", kind="file", name="out.txt", detail="vendor.Reader: path"
        )
        migrate_to_newest()
        kept = AcceptedEffect.objects.get()
        assert (kept.name, kept.is_bound, kept.project.accepted_effects.keys()) == ("out.txt", False, set())
        # Accepted again, it counts, even under the same key.
        accept_effects(kept.project, [{"key": "k", "kind": "file", "name": "out.txt"}], None)
        assert kept.project.accepted_effects.keys() == {"k"}
