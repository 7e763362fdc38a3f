"""The form of a fork on another host, and what that host refuses. One process is both hosts."""

import re
import shutil
import sys
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.flow_states import states_at
from tests.imported import imported_location
from tests.jobs.code.repositories import committed
from tests.jobs.conftest import FAKE_RUNNERS, finished, marks
from tests.real_stores import hashes_below
from tests.terminal import Terminal
from tests.views.forking import CREW, SECRET, checked, create_location, filled, page, stored
from tests.views.launch.test_many_clicks import clicked
from viewer.engines.plan import RunSettings
from viewer.host.jobs import code
from viewer.host.worker import register
from viewer.launching.preview import check_other_host, other_locations
from viewer.launching.requests import ForkRequest
from viewer.models import Checkpoint, Host, Job, JobEvent, Location, Pool, Project, Run, StoredCopy
from viewer.presentation.run_list import attention
from viewer.records.accounts import teammate
from viewer.records.bodies import body_of, stored_contents
from viewer.records.hosts import is_away

pytestmark = pytest.mark.django_db(transaction=True)
TYPED = "hunter-of-the-lost-2031"


@pytest.fixture
def entity() -> dict[str, Any]:
    """Return a crew without a secret."""
    found = deepcopy(CREW)
    del found["checkpoint_inputs"]["api_key"]
    return found


@pytest.fixture
def checkpoint(transactional_db: None, location: Location, entity: dict[str, Any]) -> Checkpoint:
    """Return a checkpoint of gpu-1, which is another machine. Its code was recorded."""
    checkpoint, project = stored(location, entity), location.project
    assert project
    committed(Path(project.folder), __gitignore=".venv\ncp\nmarks\n")
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=location,
        project=project,
        run=checkpoint.run,
        status=Job.Status.SUCCEEDED,
    )
    JobEvent.objects.create(
        job=job, seq=1, kind="checkpoint", at=Now(), data={"id": checkpoint.checkpoint_id}
    )
    code.record(job, project)
    register("gpu-2", 4)
    host = Host.objects.create(name="gpu-1", instance="elsewhere", is_up=True, seen_at=Now())
    Location.objects.update(host=host)
    Project.objects.update(host=host)
    return Checkpoint.objects.get(pk=checkpoint.pk)


@pytest.fixture
def on(checkpoint: Checkpoint, tmp_path: Path, settings: Settings) -> Location:
    """Return the location of this machine, gpu-2, with the same project. Its jobs run a tiny runner."""
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "checkpoints/copies_a_fork.py"}
    found = create_location((tmp_path / "there" / "newsroom").resolve())
    assert found.project
    found.project.interpreter = sys.executable
    found.project.save()
    checked(checkpoint, project=found.project)
    return found


def form(client: Client, checkpoint: Checkpoint, on: Location, **changes: Any) -> dict[str, Any]:
    return filled(client, checkpoint, query=f"?on={on.uid}", **{"branch": "elsewhere", **changes})


def send(client: Client, checkpoint: Checkpoint, on: Location, **changes: Any) -> str:
    """Return the address of the job that the form started, or its page with the refusals."""
    response = client.post(page(checkpoint), form(client, checkpoint, on, **changes))
    return response.headers.get("Location") or response.content.decode()


def started(client: Client, checkpoint: Checkpoint, on: Location, **changes: Any) -> Job:
    address = send(client, checkpoint, on, **changes)
    job = Job.objects.latest("created_at")
    assert address == job.get_absolute_url(), address
    return job


def edit_code(on: Location, more: str = "changed = 1\n") -> None:
    assert on.project
    Path(on.project.folder, "crew.py").write_text(
        f"from crewai import Crew\ndef build() -> Crew: ...\n{more}"
    )
    checked(Checkpoint.objects.get(location__host__name="gpu-1"), project=on.project)


def fork_command(checkpoint: Checkpoint) -> list[str]:
    """Return the command without the location of the other host."""
    target = f"gpu-1:{checkpoint.location.path}#{checkpoint.checkpoint_id}"
    return ["fork", target, "--accept-losses", "--entrypoint=crew:build", "--on"]


def folder_of(location: Location) -> Path:
    return Path(location.path)


def test_it_runs_there_and_its_page_links_to_both_runs(
    runner: Client, checkpoint: Checkpoint, on: Location
) -> None:
    job = finished(started(runner, checkpoint, on))
    assert job.status == Job.Status.SUCCEEDED and job.run and job.run.location == on
    text = runner.get(job.get_absolute_url()).content.decode()
    assert checkpoint.get_absolute_url() in text and job.run.get_absolute_url() in text
    assert "a removed checkpoint" not in text


def test_what_failed_is_retried_by_a_fork_on_either_host(
    runner: Client, checkpoint: Checkpoint, on: Location
) -> None:
    Run.objects.filter(pk=checkpoint.run_id).update(status=Run.Status.FAILED)
    assert [failure.run for failure in attention().failures] == [checkpoint.run]
    job = started(runner, checkpoint, on)
    assert attention().failures == []
    job.end(Job.Status.FAILED)
    assert attention().failure_count == 2
    own = {"kind": Job.Kind.FORK, "location": checkpoint.location, "run": checkpoint.run}
    Job.objects.create(**own, checkpoint=checkpoint, request=job.request)
    assert attention().failures == []


def test_many_clicks_start_it_once(runner: Client, checkpoint: Checkpoint, on: Location) -> None:
    sent = form(runner, checkpoint, on)
    before = Job.objects.count()
    found = clicked(teammate("bob", "run"), page(checkpoint), sent)
    assert len(found) == 1 and Job.objects.count() == before + 1
    job = finished(Job.objects.latest("created_at"))
    assert on.project and marks(on.project) in ([], [str(job.pk)])


def test_two_forms_do_not_share_a_branch(runner: Client, checkpoint: Checkpoint, on: Location) -> None:
    first, second = form(runner, checkpoint, on), form(runner, checkpoint, on)
    assert first["key"] != second["key"]
    assert [runner.post(page(checkpoint), sent).status_code for sent in (first, second)] == [302, 422]


def test_a_retry_runs_there_too(runner: Client, checkpoint: Checkpoint, on: Location) -> None:
    job = started(runner, checkpoint, on)
    edit_code(on)
    job = finished(job)
    assert job.status == Job.Status.FAILED and job.error.code == "other_host.code_differs"
    home = runner.get(reverse("home")).content.decode()
    found = re.search(r'href="([^"]*\?retry=[^"]*)"', runner.get(job.get_absolute_url()).content.decode())
    assert found and found[1] in home
    text = runner.get(found[1]).content.decode()
    assert f'name="on" value="{on.uid}"' in text and "Runs on gpu-2" in text and "accept-code" in text


FLOW = """
from crewai.flow.flow import Flow, listen, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist

@persist(SQLiteFlowPersistence("states.db"))
class Desk(Flow[dict]):
    @start()
    def choose(self):
        self.state["chosen"] = self.state["topic"].upper()
    @listen(choose)
    def write(self):
        self.state["written"] = f"On {self.state['chosen']}"
"""


def test_a_flow_state_becomes_a_new_flow_there(
    terminal: Terminal, transactional_db: None, tmp_path: Path, engine_python: Path
) -> None:
    register("gpu-2", 4)
    locations = []
    for name in ("here", "there"):
        folder = tmp_path / name / "newsroom"
        folder.mkdir(parents=True)
        (folder / "desk.py").write_text(FLOW)
        location = imported_location(states_at(folder / "states.db"))
        location.project = Project(folder=str(folder))
        location.project.change(interpreter=str(engine_python), environment_file="", entry_points=[])
        location.project.confirm(None)
        location.save()
        locations.append(location)
    own, on = locations
    host = Host.objects.create(name="gpu-1", instance="elsewhere", is_up=True, seen_at=Now())
    Location.objects.filter(pk=own.pk).update(host=host)
    Project.objects.filter(locations=own).update(host=host)
    before = hashes_below(Path(own.path).parent)
    target = f"gpu-1:{own.path}#{own.checkpoints.filter(run__key='first').latest('row').checkpoint_id}"
    command = ["fork", target, "--entrypoint=desk:Desk", "--on", f"gpu-2:{on.path}", "--accept-code"]
    job = finished(Job.objects.get(pk=terminal.succeeded(*command, "--state", '{"topic": "wasps"}')["job"]))
    assert (job.status, job.error) == (Job.Status.SUCCEEDED, None) and hashes_below(
        Path(own.path).parent
    ) == before
    assert job.run and (job.run.location, job.run.key) == (on, str(job.pk))
    assert [one.subject for one in job.run.checkpoints.order_by("row")] == ["choose", "write"]
    assert (
        body_of(job.run.checkpoints.latest("row"))["entities"][0]["checkpoint_state"]["written"] == "On WASPS"
    )


def test_other_code_is_accepted_as_it_was_shown(runner: Client, checkpoint: Checkpoint, on: Location) -> None:
    edit_code(on)
    assert "is not the same" in send(runner, checkpoint, on, **{"accept-code": ""})
    sent = form(runner, checkpoint, on)
    assert sent["accept-code"]
    edit_code(on, "changed = 2\n")
    response = runner.post(page(checkpoint), sent)
    assert response.status_code == 422 and "is not the same" in response.content.decode()
    assert not Job.objects.queued().exists()
    job = finished(
        started(runner, checkpoint, on, **{"accept-code": form(runner, checkpoint, on)["accept-code"]})
    )
    assert job.status == Job.Status.SUCCEEDED


def test_a_host_with_the_recorded_commit_runs_it_without_acceptance(
    terminal: Terminal, checkpoint: Checkpoint, on: Location
) -> None:
    edit_code(on)
    there, here = checkpoint.location.project, on.project
    assert there and here
    command = [*fork_command(checkpoint), f"gpu-2:{on.path}", "--code", "recorded"]
    assert "no longer has the recorded commit" in terminal.refused(*command)["error"]
    shutil.copytree(Path(there.folder, ".git"), Path(here.folder, ".git"))
    job = Job.objects.get(pk=terminal.succeeded(*command)["job"])
    assert job.commit and job.code and job.code.commit == job.commit
    # Another commit of that repository was not recorded with the checkpoint.
    forged = {**job.request, "options": {"commit": committed(Path(here.folder), evil__py="evil = 1\n")}}
    job = Job.objects.create(
        kind="fork", location=on, checkpoint=checkpoint, project=here, branch="forged", request=forged
    )
    job = finished(job)
    assert job.status == Job.Status.FAILED and job.error.code == "other_host.code_differs"


def change_copy(checkpoint: Checkpoint, old: bytes, new: bytes) -> None:
    copy = StoredCopy.objects.get(checkpoint=checkpoint)
    data = zstandard.ZstdDecompressor().decompress(bytes(copy.data))
    assert old in data
    StoredCopy.objects.filter(pk=copy.pk).update(data=zstandard.compress(data.replace(old, new)))


def test_a_copy_that_has_changed_does_not_run(runner: Client, checkpoint: Checkpoint, on: Location) -> None:
    sent = form(runner, checkpoint, on)
    text = runner.get(page(checkpoint), {"on": str(on.uid)}).content.decode()
    shown = re.search(r'name="shown" value="([^"]+)"', text)
    job = started(runner, checkpoint, on, branch="earlier")
    change_copy(checkpoint, b"The research", b"The reserach")
    assert shown
    response = runner.post(page(checkpoint), sent | {"shown": shown[1]})
    assert response.status_code == 422 and "The plan has changed" in response.content.decode()
    job = finished(job)
    assert job.status == Job.Status.FAILED and job.error.code == "other_host.copy_changed"
    assert not list(folder_of(on).rglob("*.json"))


@pytest.mark.parametrize("entity", [CREW])
def test_a_checkpoint_with_a_secret_reaches_neither_rows_nor_files_there(
    runner: Client, checkpoint: Checkpoint, on: Location
) -> None:
    assert "secrets do not leave their host" in send(runner, checkpoint, on)
    assert not Job.objects.queued().exists() and not list(folder_of(on).rglob("*"))
    assert not any(SECRET in str(row.request) for row in Job.objects.all())


def test_a_secret_of_the_checkpoints_host_is_not_sent_as_an_edit(
    runner: Client, checkpoint: Checkpoint, on: Location
) -> None:
    project = checkpoint.location.project
    assert project
    file = Path(project.folder, ".env")
    file.write_text(f"SERVICE_TOKEN={TYPED}\n")
    Project.objects.filter(pk=project.pk).update(environment_file=str(file))
    assert (
        f"/locations/{on.uid}/project/" in runner.get(page(checkpoint), {"on": str(on.uid)}).content.decode()
    )
    assert "Your edits contain a secret of gpu-1" in send(runner, checkpoint, on, input__topic=TYPED)
    assert not Job.objects.queued().exists()
    for settings in (RunSettings(configurable={"x": [TYPED]}), RunSettings(context={"x": TYPED})):
        contents = stored_contents(checkpoint)
        request = ForkRequest(
            checkpoint=checkpoint,
            contents=contents,
            project=on.project,
            branch="x",
            entry_point="crew:build",
            on=on,
            settings=settings,
        )
        assert "secret of gpu-1" in "".join(
            one.message for one in check_other_host(request).refusals_of(request)
        )
    assert started(runner, checkpoint, on, input__topic="tea").request["inputs"] == {"topic": "tea"}


def test_only_a_person_who_may_run_sees_and_sends_it(
    reader: Client, checkpoint: Checkpoint, on: Location
) -> None:
    addresses = [
        page(checkpoint),
        page(checkpoint, "fork-plan"),
        reverse("code-difference", args=[checkpoint.pk]),
    ]
    for address in addresses:
        assert reader.get(address, {"on": str(on.uid)}).status_code in (403, 405)
        assert reader.post(address, {"on": str(on.uid)}).status_code in (403, 405)
    assert not Job.objects.queued().exists()


def test_only_a_registered_location_of_the_project_is_accepted(
    runner: Client, checkpoint: Checkpoint, on: Location, tmp_path: Path
) -> None:
    unconfirmed = create_location((tmp_path / "more" / "newsroom").resolve())
    assert unconfirmed.project
    Project.objects.filter(pk=unconfirmed.project.pk).update(confirmed_at=None)
    other = create_location((tmp_path / "there" / "xnewsroom").resolve())
    replaced = Location.objects.create(
        path=str(tmp_path), store_kind="json", project=on.project, replaced_by="1"
    )
    names = [one.uid for one in (unconfirmed, other, replaced, checkpoint.location)]
    for name in (*names, on.path, "/etc", f"gpu-2:{on.path}", "x" * 5000, "\0"):
        for kind in ("fork", "fork-plan"):
            assert runner.post(page(checkpoint, kind), {"on": str(name)}).status_code == 404, name
    for kind in ("resume", "resume-plan"):
        assert runner.post(page(checkpoint, kind), {"on": str(on.uid)}).status_code == 404
    assert other_locations(checkpoint) == [on]


def test_a_form_links_to_a_few_of_many_locations(
    runner: Client, checkpoint: Checkpoint, on: Location
) -> None:
    for number in range(30):
        Location.objects.create(
            path=f"{on.path}/{number}", store_kind="json", project=on.project, host=on.host
        )
    text = runner.get(page(checkpoint)).content.decode()
    assert text.count("?on=") == 20 and "and 11 more locations" in text


def test_a_host_that_is_away_is_refused_or_waited_for(
    runner: Client, checkpoint: Checkpoint, on: Location
) -> None:
    other = Host.objects.create(
        name="gpu-3", instance="third", seen_at=Now() - timedelta(hours=1), is_up=True
    )
    Location.objects.filter(pk=on.pk).update(host=other)
    project = on.project
    assert project
    project.host = other
    project.save()
    on = Location.objects.get(pk=on.pk)
    assert is_away(other.pk)
    assert "gpu-3 does not answer" in send(runner, checkpoint, on, waits_for_host="")
    job = started(runner, checkpoint, on, waits_for_host="1")
    assert (job.status, job.host, job.location) == (Job.Status.QUEUED, other, on)
    # The own host of the checkpoint may be away: nothing of it is needed.
    Host.objects.update(seen_at=Now())
    Host.objects.filter(name="gpu-1").update(seen_at=Now() - timedelta(hours=1))
    assert started(runner, checkpoint, on, branch="source-away").host == other


def test_any_host_of_a_pool_claims_it(runner: Client, checkpoint: Checkpoint, on: Location) -> None:
    on.pool = Pool.objects.create(name="gpus")
    on.save()
    job = finished(started(runner, checkpoint, on))
    assert job.status == Job.Status.SUCCEEDED and job.location == on


@pytest.mark.parametrize("command", ["resume", "sweep", "bulk fork", "bulk resume"])
def test_other_commands_refuse_another_host(
    terminal: Terminal, checkpoint: Checkpoint, on: Location, command: str
) -> None:
    refused = terminal.refused(*command.split(), checkpoint.target, "--on", f"gpu-2:{on.path}")
    assert "--on" in refused["error"] and not Job.objects.queued().exists()


def test_the_terminal_names_the_locations_and_how_code_is_accepted(
    terminal: Terminal, checkpoint: Checkpoint, on: Location
) -> None:
    edit_code(on)
    command = fork_command(checkpoint)
    assert f"gpu-2:{on.path}" in terminal.refused(*command, "gpu-2:/etc")["error"]
    refused = terminal.refused(*command, f"gpu-2:{on.path}")
    assert "Accept it with --accept-code." in refused["hints"]
    named = terminal.refused(*command, f"gpu-2:{on.path}", "--project", "/")
    assert "Name no other one" in named["error"]
    done = terminal.succeeded(*command, f"gpu-2:{on.path}", "--accept-code")
    assert Job.objects.get(pk=done["job"]).location == on
