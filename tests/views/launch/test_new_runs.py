"""The form of a new run: its fields, what it starts and what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.views.forking import CREW, SECRET, is_startable, stored
from viewer.messages.message import plain_text
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project

pytestmark = pytest.mark.postgresql


@pytest.fixture
def page(location: Location, person: User, settings: Settings) -> str:
    folder = Path(location.path).parent
    settings.CHECKPOINT_ROOTS = [folder]
    (folder / "crew.py").write_text(
        "from crewai import Crew, Task\n"
        "def build() -> Crew:\n"
        "    return Crew(tasks=[Task(description='Write about {topic} for {year}')])\n"
    )
    return reverse("new-run", args=[location.uid])


def form_of(client: Client, address: str, **changes: Any) -> dict[str, Any]:
    """Return what a browser would send for the page, with these changes; ``a__b`` means ``a:b``."""
    text = client.get(address).content.decode()
    found = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text))
    found |= dict(re.findall(r'<input class="input number"[^>]* name="([^"]+)" value="([^"]*)"', text))
    found |= dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n([^<]*)</textarea>', text))
    found.pop("csrfmiddlewaretoken")
    return found | {name.replace("__", ":"): value for name, value in changes.items()}


def test_a_run_starts_once_with_typed_inputs_and_its_job_is_shown(client: Client, page: str) -> None:
    address = f"{page}?entry_point=crew:build"
    shown = client.get(address).content.decode()
    assert 'name="input:topic"' in shown
    assert 'name="input:year"' in shown
    sent = form_of(client, address, input__topic="bees", **{"input-json:year": "2026"})
    sent |= {
        "input-more": '{"tags": ["a", 1]}',
        "checkpoint_events": ["task_started"],
        "max_checkpoints": "2",
    }
    first = client.post(page, sent)
    job = Job.objects.get()
    assert first.status_code == 302
    assert first["Location"] == job.get_absolute_url() == client.post(page, sent)["Location"]
    assert (job.kind, job.run, job.checkpoint, job.branch) == (Job.Kind.RUN, None, None, "main")
    assert job.request["inputs"] == {"topic": "bees", "year": 2026, "tags": ["a", 1]}
    assert job.request["checkpoint"] == {"id": "", "source": ""}
    assert (job.request["entity"], job.request["entry_point"], job.request["name"]) == (
        "crew",
        "crew:build",
        "build",
    )
    assert job.request["options"] == {"checkpoints": {"events": ["task_started"], "max_checkpoints": 2}}
    job_page = client.get(first["Location"]).content.decode()
    assert "Waiting to start <strong>build</strong>" in job_page
    assert "crew:build" in job_page


def test_a_changed_new_run_form_with_a_used_key_asks_before_it_starts_again(
    client: Client, page: str
) -> None:
    sent = form_of(client, f"{page}?entry_point=crew:build", input__topic="bees", input__year="1")
    client.post(page, sent)
    answer = client.post(page, sent | {"input:topic": "wasps"})
    assert answer.status_code == 422
    assert "has already started a run" in answer.content.decode()
    assert Job.objects.count() == 1
    assert (
        client.post(page, {name: value for name, value in sent.items() if name != "key"}).status_code == 422
    )
    assert Job.objects.count() == 1


def test_the_plan_of_a_new_run_is_shown_and_nothing_starts(client: Client, page: str) -> None:
    sent = form_of(client, f"{page}?entry_point=crew:build", input__topic="bees", **{"input-json:year": "{"})
    plan = reverse("new-run-plan", args=[Location.objects.get().uid])
    whole = client.post(plan, sent).content.decode()
    assert "This cannot start yet" in whole and f'href="{page}?entry_point=flow%3ADesk"' in whole
    sent |= {"checkpoint_events": ["*"], "model:*": "gpt 4", "new_location": "/etc/forkline"}
    part = client.post(plan, sent, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part and "This writes many checkpoints" in part
    for name in ("input-1", "model-all", "new_location"):
        assert re.search(rf'id="{name}-error" hx-swap-oob="true">[^<]', part), name
    Location.objects.update(project=None)
    assert client.post(plan, sent).status_code == 302
    assert not Job.objects.exists()


def test_a_blocking_preflight_check_is_shown_and_nothing_starts(client: Client, page: str) -> None:
    address = f"{page}?entry_point=crew:build"
    unchecked = client.get(address).content.decode()
    assert not PreflightCheck.objects.exists() and 'name="check"' in unchecked and is_startable(unchecked)
    client.post(f"{page}plan/", {"entry_point": "crew:build", "check": "1"})
    waiting = client.get(address).content.decode()
    check = PreflightCheck.objects.get()
    assert (check.checkpoint, check.entity, check.store_kind) == (None, "crew", "json")
    # The form does not wait for it, since the runner makes the same check.
    assert reverse("preflight", args=[check.pk]) in waiting and is_startable(waiting)
    sent = form_of(client, address, input__topic="bees", input__year="1")
    check.finish({"engine_version": "1.15.30", "python_version": "3.11.7", "blocks": ["It <fails>."]})
    assert not is_startable(client.get(address).content.decode())
    refused = client.post(page, sent)
    assert refused.status_code == 422 and "It &lt;fails&gt;." in refused.content.decode()
    assert not Job.objects.exists()
    # A SQLite store needs another check than a folder.
    assert is_startable(
        client.post(page, sent | {"new_location": "new.db", "input-json:year": "{"}).content.decode()
    )
    assert set(PreflightCheck.objects.values_list("store_kind", flat=True)) == {"json", "sqlite"}
    check.fail(plain_text("It took longer than 60 seconds, and was ended."))
    failed = client.post(page, sent | {"input-json:year": "{"}).content.decode()
    assert "it is unknown whether this can start" in failed and "It took longer" in failed
    check.finish({"engine_version": "1.15.30", "python_version": "3.11.7", "imports": ["crew"]})
    shown = client.get(address).content.decode()
    assert "Ready to start." in shown and "CrewAI 1.15.30" in shown
    assert client.post(page, sent).status_code == 302
    assert "accepted" not in Job.objects.get().request["options"]


def test_nothing_starts_before_the_project_is_confirmed(client: Client, page: str) -> None:
    sent = form_of(client, f"{page}?entry_point=crew:build", input__topic="bees", input__year="1")
    Project.objects.update(confirmed_at=None)
    assert reverse("project", args=[Location.objects.get().uid]) in client.get(page)["Location"]
    answer = client.post(page, sent)
    assert answer.status_code == 422
    assert "is not confirmed" in answer.content.decode()
    Location.objects.update(project=None)
    assert client.post(page, sent).status_code == 302
    assert not Job.objects.exists()


def test_one_of_several_entry_points_has_to_be_chosen(client: Client, page: str) -> None:
    shown = client.get(page).content.decode()
    assert "?entry_point=crew%3Abuild" in shown
    assert "?entry_point=flow%3ADesk" in shown
    assert "start-button" not in shown
    assert client.post(page, {"entry_point": "os:system"}).status_code == 422
    assert not Job.objects.exists()


def test_run_again_fills_the_form_with_the_inputs_of_the_run(
    client: Client, page: str, checkpoint: Checkpoint
) -> None:
    answer = client.get(reverse("run-again", args=[checkpoint.run.uid]))
    shown = client.get(answer["Location"]).content.decode()
    assert "Run again" in shown
    assert SECRET not in shown
    sent = form_of(client, answer["Location"])
    assert (sent["input:topic"], sent["input:year"], sent["input:api_key"]) == ("AI", "2026", "")
    client.post(page, sent)
    job = Job.objects.get()
    assert job.request["inputs"] == {"topic": "AI", "year": 2026}
    assert (job.request["name"], job.request["entry_point"]) == ("news", "crew:build")
    assert answer["Location"].startswith(page)
    opened = client.get(checkpoint.run.get_absolute_url())
    assert reverse("run-again", args=[checkpoint.run.uid]) in opened.content.decode()


def test_a_new_location_is_created_only_inside_the_allowed_folders(
    client: Client, page: str, location: Location
) -> None:
    sent = form_of(client, f"{page}?entry_point=crew:build", input__topic="bees", input__year="1")
    for path in ("/etc/forkline", "../beside", "crew.py"):
        answer = client.post(page, sent | {"new_location": path})
        assert answer.status_code == 422, path
        assert 'href="#new_location"' in answer.content.decode()
    assert not Job.objects.exists()
    assert Location.objects.get() == location
    client.post(page, sent | {"new_location": "runs/new.db"})
    job = Job.objects.select_related("location").get()
    assert job.location.path == str(Path(location.path).parent / "runs/new.db")
    assert (job.location.store_kind, job.location.project) == ("sqlite", location.project)
    assert job.request["location"] == {"path": job.location.path, "store_kind": "sqlite"}
    assert job.location.get_absolute_url() != location.get_absolute_url()


def test_an_invalid_field_shows_its_error(client: Client, page: str) -> None:
    sent = form_of(client, f"{page}?entry_point=crew:build", input__topic="bees")
    sent |= {"input-json:year": "{", "checkpoint_events": ["task_dreamt"], "max_checkpoints": "none"}
    answer = client.post(page, sent | {"location": "00000000-0000-4000-8000-000000000000"})
    text = answer.content.decode()
    assert answer.status_code == 422
    for field in ("input-1", "max-checkpoints", "new_location"):
        assert f'href="#{field}"' in text, field
    assert 'href="#checkpoint-events"' in client.post(page, sent).content.decode()
    assert not Job.objects.exists()


def test_models_and_cache_warm_up_are_offered_for_crews_and_not_for_flows(
    client: Client, page: str, location: Location
) -> None:
    run = stored(location, CREW | {"agents": [{"id": "a", "role": "Writer", "llm": "gpt-4o"}]}).run
    address = f"{page}?again={run.uid}"
    shown = client.get(address).content.decode()
    assert 'name="model:*"' in shown and 'name="model:Writer"' in shown
    sent = form_of(client, address) | {"model:Writer": "o3", "cache_warmup": "sequential"}
    refused = client.post(page, sent | {"model:*": "gpt 4"}).content.decode()
    assert 'href="#model-all"' in refused and not Job.objects.exists()
    client.post(page, sent)
    assert Job.objects.get().request["options"] == {"models": {"Writer": "o3"}, "cache_warmup": "sequential"}
    assert 'name="model:*"' not in client.get(f"{page}?entry_point=flow:Desk").content.decode()


def test_a_flow_shows_its_state_and_receives_only_changed_values(client: Client, page: str) -> None:
    folder = Path(Location.objects.get().path).parent
    (folder / "flow.py").write_text(
        "from crewai import Flow\nclass State(BaseModel):\n    topic: str = 'AI'\n    year: int = 2026\n"
        "class Desk(Flow[State]): ...\n"
    )
    sent = form_of(client, f"{page}?entry_point=flow:Desk")
    assert (sent["input:topic"], sent["input:year"]) == ("AI", "2026")
    client.post(page, sent | {"input:year": "1999"})
    job = Job.objects.get()
    assert (job.request["entity"], job.request["inputs"]) == ("flow", {"year": 1999})


def test_a_hostile_name_in_the_source_is_escaped(client: Client, page: str) -> None:
    folder = Path(Location.objects.get().path).parent
    body = json.dumps("{topic} <script>alert(1)</script> {x-y}")
    (folder / "crew.py").write_text(
        f"from crewai import Crew\ndef build() -> Crew:\n    return Crew(description={body})\n"
    )
    shown = client.get(f"{page}?entry_point=crew:build&again=<script>").content.decode()
    assert "<script>alert" not in shown
    assert 'name="input:x-y"' in shown
