"""States are forked on a copy: nothing writes to a store of flow states or deletes there."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.flow_states import SCHEMA, add_state, states_at
from tests.imported import imported_location
from tests.real_stores import hashes_below
from tests.terminal import Terminal
from viewer.engines import engine_of
from viewer.engines.crewai.labels import CREW
from viewer.engines.plan import Edits
from viewer.host.locations.adding import write_target_at, write_target_of
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_scratch
from viewer.host.locations.pruning import plan_prune
from viewer.host_requests import PruneRules, UnknownLocation
from viewer.launching.new_run import preview_new_run
from viewer.launching.refusals import Code
from viewer.launching.requests import NewRunRequest
from viewer.models import Checkpoint, Host, Job, Location, Project
from viewer.records.bodies import stored_body, stored_contents

JOB = "11111111-1111-4111-8111-111111111111"
SOURCE = """
from crewai.flow.flow import Flow, listen, router, start
from crewai.flow.persistence import persist

@persist()
class Desk(Flow):
    @start()
    def choose(self): ...
    @listen(choose)
    def write(self): ...
    @listen(write)
    def check(self): ...
"""

ASKING = """
from crewai.flow import human_feedback
from crewai.flow.flow import Flow, listen, start

class Desk(Flow):
    @start()
    def choose(self): ...
    @listen(choose)
    @human_feedback(message="Is it good?", emit=["rejected", "approved"])
    def write(self): ...
    @listen("approved")
    def print_it(self): ...
    @listen("rejected")
    def bin_it(self): ...
"""
SECRET = "sk-proj-" + "a1B2" * 10


@pytest.fixture
def location(db: None, tmp_path: Path) -> Location:
    return imported_location(states_at(tmp_path / "flow_states.db"))


def test_its_runs_are_flows_with_their_states(location: Location, runner: Client) -> None:
    assert (location.store_kind, location.engine) == ("states", "crewai")
    assert sorted(location.runs.values_list("key", "entity")) == [
        ("first", "flow_state"),
        ("second", "flow_state"),
    ]
    run = location.runs.get(key="first")
    page = runner.get(run.get_absolute_url()).content.decode()
    assert "choose" in page and "check" in page
    last = run.checkpoints.get(is_branch_head=True)
    state = runner.get(f"{run.get_absolute_url()}?at={last.checkpoint_id}&tab=state").content.decode()
    assert "rounds" in state and "bees" in state


@pytest.fixture
def in_project(location: Location) -> Location:
    """The location in a confirmed project with a flow of these methods."""
    folder = Path(location.path).parent / "project"
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to("/bin/sh")
    (folder / "desk.py").write_text(SOURCE)
    project = Project(folder=str(folder))
    project.change(
        interpreter=str(folder / ".venv/bin/python"), environment_file="", entry_points=["desk:Desk"]
    )
    project.confirm(None)
    Location.objects.filter(pk=location.pk).update(project=project)
    return Location.objects.get()


def test_a_fork_starts_the_flow_over(in_project: Location, runner: Client, terminal: Terminal) -> None:
    page = runner.get(in_project.get_absolute_url()).content.decode()
    assert reverse("new-run", args=[in_project.uid]) not in page
    start = in_project.checkpoints.get(source_key="3")
    page = runner.get(reverse("fork", args=[start.pk])).content.decode()
    assert "the run starts over with this state" in page and "a draft in Forkline" in page
    assert "restore_from_state_id" in page and "desk:Desk" in page
    assert "max_checkpoints" not in page
    for name in ("choose", "write", "check"):
        assert name in page
    target = f"{in_project.path}#{start.checkpoint_id}"
    text = terminal.text("fork", target, "--state", '{"topic": "wasps"}', "--plan")
    assert "runs again" in text and "choose" in text


def asking(location: Location, **context: object) -> Checkpoint:
    """Import a flow that waits for feedback, as CrewAI stores it. Return its state."""
    asked = {
        "flow_id": "asks",
        "flow_class": "desk.Desk",
        "method_name": "write",
        "method_output": "On bees",
        "message": "Is it good?",
        "emit": ["rejected", "approved"],
        "llm": {"model": "gpt", "api_key": SECRET},
        **context,
    }
    with closing(sqlite3.connect(location.path)) as connection:
        add_state(connection, "asks", "write", {"id": "asks"})
        row = ("asks", json.dumps(asked), "{}", "2026-11-20T10:09:00")
        insert = "INSERT INTO pending_feedback (flow_uuid, context_json, state_json, created_at)"
        connection.execute(f"{insert} VALUES (?, ?, ?, ?)", row)
        connection.commit()
    import_location(location)
    return location.runs.get(key="asks").checkpoints.get()


def test_pending_feedback_is_in_the_inbox_and_answered_by_a_resume(
    in_project: Location, runner: Client, terminal: Terminal
) -> None:
    (Path(in_project.path).parent / "project/desk.py").write_text(ASKING)
    state = asking(in_project, message=f"Is it good, {SECRET}?")
    assert (state.run.status, state.trigger, state.is_last) == ("waiting", "feedback_pending", True)
    shown = runner.get(reverse("inbox")).content.decode()
    asked = runner.get(reverse("run-questions", args=[state.run.uid])).content.decode()
    assert str(state.run.uid) in shown
    for text in ("write: Is it good", "On bees", "approved", "rejected", reverse("resume", args=[state.pk])):
        assert text in asked
    page = runner.get(reverse("resume", args=[state.pk]), {"choice:0": "approved"}).content.decode()
    assert "Send answer: approved" in page and "print_it" in page
    target = f"{in_project.path}#{state.checkpoint_id}"
    text = terminal.text("resume", target, "--answer", "rejected", "--plan")
    assert "bin_it" in text
    refused = terminal.refused("resume", target, "--answer", f"{'0a' * 16}=rejected", "--plan")
    assert "interrupts" in str(refused)
    assert SECRET not in asked + page + text + json.dumps(stored_body(state))
    assert "leaves the run waiting" in asked and "continues the run itself" in page


def test_only_a_fork_that_starts_over_has_a_script(in_project: Location, runner: Client) -> None:
    state = in_project.checkpoints.get(source_key="3")
    request = {"entity": "flow_state", "entry_point": "desk:Desk"}
    values = {"location": in_project, "run": state.run, "checkpoint": state, "request": request}
    over = [{"unit": "choose", "action": "again", "reason": "starts_over"}]
    fork = Job.objects.create(kind="fork", branch="try", plan=over, **values)
    answer = Job.objects.create(kind="resume", branch="main", plan=[], **values)
    pages = [runner.get(job.get_absolute_url()).content.decode() for job in (fork, answer)]
    assert ["restore_from_state_id" in page for page in pages] == [True, False]
    assert all("forkline " in page for page in pages)


def test_the_plan_of_an_answer_has_the_methods_that_its_outcome_leads_to(in_project: Location) -> None:
    folder = Path(in_project.path).parent / "project"
    (folder / "desk.py").write_text(ASKING)
    contents, source = (
        stored_contents(asking(in_project)),
        engine_of(in_project).read_source(folder, "desk:Desk", "flow_state"),
    )
    engine = engine_of(contents)
    planned = {
        answer: [(one.unit, one.action) for one in engine.plan(contents, Edits(answers={"": answer}), source)]
        for answer in ("Approved\nwith joy", "rejected", "hm")
    }
    assert planned == {
        "Approved\nwith joy": [("write", "kept"), ("print_it", "runs")],
        "rejected": [("write", "kept"), ("bin_it", "runs")],
        "hm": [("write", "kept"), ("bin_it", "may"), ("print_it", "may")],
    }


def test_a_state_whose_feedback_was_given_elsewhere_waits_no_longer(in_project: Location) -> None:
    state = asking(in_project)
    with closing(sqlite3.connect(in_project.path)) as connection:
        connection.execute("DELETE FROM pending_feedback")
        connection.commit()
    import_location(in_project)
    state.refresh_from_db()
    assert (state.trigger, state.run.status) == ("method_execution_finished", "")


def test_damaged_feedback_hides_no_state(in_project: Location) -> None:
    asking(in_project)
    with closing(sqlite3.connect(in_project.path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'pending_feedback'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("DELETE FROM flow_states WHERE id = 1")
        connection.commit()
    path = Path(in_project.path)
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(data)
    summary = import_location(in_project)
    assert summary.read_error is None
    assert in_project.checkpoints.filter(state="present").count() == 6


@pytest.mark.parametrize(
    "context",
    [
        {"method_output": {"deep": [1] * 100_000}, "message": "x" * 100_000, "emit": ["y"] * 10_000},
        {"message": None, "emit": "approved", "method_name": ["write"], "method_output": None},
        {"flow_class": "os.system", "emit": [{"a": 1}], "message": "<script>alert(1)</script>"},
    ],
)
def test_hostile_feedback_is_shown_as_text(
    in_project: Location, runner: Client, context: dict[str, object]
) -> None:
    state = asking(in_project, **context)
    page = runner.get(state.get_absolute_url()).content.decode()
    form = runner.get(reverse("resume", args=[state.pk])).content.decode()
    assert state.run.status == "waiting" and "<script>alert" not in page + form
    assert len(page) + len(form) < 400_000


def test_a_state_is_not_resumed(in_project: Location, runner: Client) -> None:
    head = in_project.runs.get(key="first").checkpoints.get(is_branch_head=True)
    shown = runner.get(head.get_absolute_url()).content.decode()
    assert reverse("fork", args=[head.pk]) in shown and reverse("resume", args=[head.pk]) not in shown
    page = runner.post(reverse("resume", args=[head.pk]), {}).content.decode()
    assert "Only a state that waits" in page
    assert not in_project.jobs.exists()


def test_the_states_of_a_fork_are_a_branch_of_its_run(in_project: Location, tmp_path: Path) -> None:
    run, store = in_project.runs.get(key="first"), tmp_path / "job/threads.sqlite"
    store.parent.mkdir()
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(SCHEMA)
        for method in ("choose", "write"):
            add_state(connection, "copy", method, {"id": "copy", "topic": "wasps"})
        connection.commit()
    start = run.checkpoints.get(source_key="3")
    for added in (2, 0):
        assert import_scratch(run, store, JOB, "try", start.checkpoint_id).added == added
    import_location(in_project)
    first, last = run.checkpoints.filter(branch="try").order_by("row")
    assert (first.parent, last.parent, last.is_last) == (start, first, True)
    assert (first.state, first.source_key) == ("present", f"scratch/{JOB}/1")
    assert run.checkpoints.get(source_key="5").is_last
    assert in_project.runs.count() == 2


def test_nothing_is_written_or_deleted_there(location: Location, tmp_path: Path) -> None:
    before = hashes_below(tmp_path)
    with pytest.raises(UnknownLocation, match="file of states"):
        write_target_at(location.path, Project.objects.create(folder=str(tmp_path)))
    assert not plan_prune(location, PruneRules(days=0)).rows
    assert hashes_below(tmp_path) == before


def test_a_run_never_writes_where_states_were(location: Location, tmp_path: Path) -> None:
    project = Project.objects.create(folder=str(tmp_path))
    with closing(sqlite3.connect(location.path)) as connection:
        connection.execute("CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, data JSONB)")
    with pytest.raises(UnknownLocation, match="file of states"):
        write_target_of(location, project)
    Path(location.path).unlink()
    with pytest.raises(UnknownLocation, match="file of states"):
        write_target_of(location, project)


def test_no_run_is_queued_to_write_there_while_its_host_is_away(location: Location, tmp_path: Path) -> None:
    away = Host.objects.create(name="gpu-2", instance="elsewhere")
    project = Project.objects.create(folder=str(tmp_path), host=away, confirmed_at=timezone.now())
    Location.objects.filter(pk=location.pk).update(host=away, project=project)
    request = NewRunRequest(
        project=project, entry_point="a:b", kind=CREW, name="a", inputs={}, target=Location.objects.get()
    )
    preview = preview_new_run(request)
    assert preview.target is None and Code.TARGET in {one.code for one in preview.refusals}


def test_the_terminal_lists_them(location: Location, terminal: Terminal) -> None:
    text = terminal.text("list", location.path)
    assert "first" in text and "flow_state" in text and "20261120T100500_00000006" in text


def test_a_secret_in_a_state_is_redacted(db: None, tmp_path: Path) -> None:
    path, secret = states_at(tmp_path / "flow_states.db"), SECRET
    with closing(sqlite3.connect(path)) as connection:
        add_state(connection, "first", "write", {"id": "first", "api_key": secret, "note": f"key {secret}"})
        connection.commit()
    head = imported_location(path).checkpoints.get(source_key="7")
    body = json.dumps(stored_body(head))
    assert secret not in body and body.count("[redacted]") == 2
