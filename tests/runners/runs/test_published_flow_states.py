"""A fork of a flow's state is published by its page and at the terminal as a new run of its location."""

import uuid
from pathlib import Path

import pytest
from django.core.management import execute_from_command_line
from django.test import Client
from django.urls import reverse

from tests.engine_runs.runs import PRESS
from tests.imported import imported_location
from tests.runners.stores.test_publishing_flow_states import STATES, rows_in, store_at
from viewer.engines.crewai.labels import FLOW_STATE
from viewer.host.locations.indexing import import_scratch
from viewer.launching.edits import InvalidValue
from viewer.launching.options import parse_fork_target
from viewer.models import Job, Project
from viewer.models.runs import scratch_store_of


def test_a_draft_becomes_a_new_flow_once_a_person_has_agreed(
    engine_python: Path, transactional_db: None, tmp_path: Path, runner: Client
) -> None:
    store = store_at(tmp_path / "states/flow_states.db", "kept", [("first", {"id": "kept"})])
    location, before = imported_location(store), rows_in(store)
    location.project = Project(folder=str(PRESS))
    location.project.change(interpreter=str(engine_python), environment_file="", entry_points=[])
    location.project.confirm(None)
    location.save()
    forked = location.checkpoints.get()
    job = Job.objects.create(kind="fork", location=location, run=forked.run, branch="try", status="succeeded")
    scratch_store_of(job.pk).parent.parent.mkdir(exist_ok=True)
    scratch = store_at(scratch_store_of(job.pk), "draft", STATES)
    assert import_scratch(forked.run, scratch, str(job.pk), "try", forked.checkpoint_id).added == 2
    draft = location.checkpoints.get(branch="try", is_branch_head=True)

    link = reverse("publish", args=[draft.pk])
    page = runner.get(link).content.decode()
    assert "Id of the new flow" in page and "and the one that was forked" not in page
    assert link in runner.get(draft.get_absolute_url()).content.decode()
    sent = {"into": "new-thread", "key": str(uuid.uuid4())}
    assert runner.post(link, sent | {"thread": "other"}).status_code == 422
    assert "already" in runner.post(link, sent | {"thread": "kept", "agreed": "1"}).content.decode()
    assert not Job.objects.filter(kind="publish").exists() and rows_in(store) == before

    project = ["--project", str(PRESS), "--python", str(engine_python)]
    execute_from_command_line(
        ["manage.py", "checkpoints", "publish", draft.target, "--thread", "other", "--wait", *project]
    )
    written = [(flow, method) for flow, method, _state in rows_in(store)[1:]]
    assert written == [("other", "first"), ("other", "second")] and rows_in(store)[:1] == before
    run = location.runs.get(key="other")
    assert run.checkpoints.count() == 2 and not any(one.is_scratch for one in run.checkpoints.all())
    assert "Already published as other" in runner.get(link).content.decode()
    draft.refresh_from_db()
    assert draft.is_scratch and scratch.exists()


def test_a_fork_of_a_state_is_published_only_once_it_has_ended() -> None:
    assert parse_fork_target("", FLOW_STATE) == parse_fork_target("scratch", FLOW_STATE) == ""
    with pytest.raises(InvalidValue, match="once it has ended"):
        parse_fork_target("new-thread", FLOW_STATE)
