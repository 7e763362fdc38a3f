"""The fork and resume pages: what they say before anything runs, refuse, and start once."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.forms.samples import task
from tests.views.forking import CREW, SECRET, made_location, stored
from viewer.models import Checkpoint, Job, Location, Project

pytestmark = pytest.mark.django_db
SCRIPT = "</textarea><script>alert(1)</script>"


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return made_location((tmp_path / "newsroom").resolve())


@pytest.fixture
def person(client: Client) -> User:
    user = User.objects.create_user("ada")
    client.force_login(user)
    return user


FLOW: dict[str, Any] = {
    "entity_type": "flow",
    "name": "Desk",
    "checkpoint_state": {"id": "22222222-2222-4222-8222-222222222222", "topic": "AI", "n": 1},
    "checkpoint_completed_methods": ["outline"],
    "checkpoint_method_counts": {"outline": 1},
}


@pytest.fixture
def checkpoint(location: Location) -> Checkpoint:
    return stored(location, CREW)


def page(checkpoint: Checkpoint, name: str = "fork") -> str:
    return reverse(name, args=[checkpoint.pk])


def filled(client: Client, checkpoint: Checkpoint, name: str = "fork", **changes: Any) -> dict[str, Any]:
    """What a browser would send of the page, with these changes; ``a__b`` stands for ``a:b``."""
    text = client.get(page(checkpoint, name)).content.decode()
    found = dict(re.findall(r'<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"', text))
    found |= dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n([^<]*)</textarea>', text))
    found = {key: value.replace("&quot;", '"') for key, value in found.items()}
    found.pop("csrfmiddlewaretoken", None)
    chosen = re.search(r'<option selected[^>]*>([^<]+)</option>|<option value="" selected', text)
    found["entry_point"] = (chosen[1] or "") if chosen else ""
    for choice in ("again", "keep", "shown"):
        found.pop(choice, None)
    return found | {key.replace("__", ":"): value for key, value in changes.items()}


def test_the_form_shows_each_input_by_its_type_and_no_secret(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    text = client.get(page(checkpoint)).content.decode()
    assert 'name="input:year" value="2026"' in text and "whole number" in text
    assert "The research" in text and "&quot;holds&quot;: true" in text
    assert "nothing has run yet" in text
    assert SECRET not in text and "A secret, kept as it is" in text
    assert not Job.objects.exists()


def test_starting_makes_one_job_of_what_was_changed_alone(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint, input__year="2030", output__task1="", branch="year-2030")
    del sent["output:task1"]
    sent["output:task-1"] = "My research"
    answer = client.post(page(checkpoint), sent)
    job = Job.objects.get()
    assert answer.status_code == 302
    assert answer["Location"].startswith(checkpoint.get_absolute_url()) and str(job.pk) in answer["Location"]
    assert (job.kind, job.branch, job.requested_by, job.project) == (
        "fork",
        "year-2030",
        person,
        checkpoint.location.project,
    )
    assert job.request["inputs"] == {"year": 2030} and type(job.request["inputs"]["year"]) is int
    assert job.request["outputs"] == {"task-1": {"text": "My research"}}
    assert job.request["entry_point"] == "crew:build"
    assert [step["action"] for step in job.plan] == ["edited", "again", "runs"]
    assert [step["action"] for step in job.request["steps"]] == ["edited", "again", "runs"]


def test_a_form_that_is_sent_twice_starts_one_job(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint)
    answers = [client.post(page(checkpoint), sent) for _ in range(3)]
    assert len({answer["Location"] for answer in answers}) == 1
    assert Job.objects.count() == 1


def test_a_form_that_comes_back_changed_asks_before_it_starts_another(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint)
    client.post(page(checkpoint), sent)
    again = client.post(page(checkpoint), sent | {"input:topic": "ML", "branch": "other"})
    assert again.status_code == 422 and "has started a run already" in again.content.decode()
    assert Job.objects.count() == 1
    key = re.search(r'name="key" value="([^"]+)"', again.content.decode())
    assert key and key[1] != sent["key"]
    client.post(page(checkpoint), sent | {"input:topic": "ML", "branch": "other", "key": key[1]})
    assert Job.objects.count() == 2


def test_a_form_without_its_key_starts_nothing(client: Client, person: User, checkpoint: Checkpoint) -> None:
    for key in ("", "x"):
        answer = client.post(page(checkpoint), filled(client, checkpoint) | {"key": key})
        assert answer.status_code == 422 and "incomplete" in answer.content.decode()
    assert not Job.objects.exists()


def test_what_was_not_shown_does_not_start(client: Client, person: User, checkpoint: Checkpoint) -> None:
    shown = re.search(r'name="shown" value="([^"]+)"', client.get(page(checkpoint)).content.decode())
    assert shown
    sent = filled(client, checkpoint) | {"shown": shown[1], "output:task-1": "My research"}
    answer = client.post(page(checkpoint), sent)
    assert answer.status_code == 422 and "has changed with your last edit" in answer.content.decode()
    assert not Job.objects.exists()
    shown = re.search(r'name="shown" value="([^"]+)"', answer.content.decode())
    assert shown and client.post(page(checkpoint), sent | {"shown": shown[1]}).status_code == 302


def test_the_plan_says_what_is_kept_edited_and_run_and_starts_nothing(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint) | {"output:task-1": "The new research", "input:topic": "ML"}
    answer = client.post(page(checkpoint, "fork-plan"), sent, headers={"HX-Request": "true"})
    text = answer.content.decode()
    assert answer.status_code == 200 and "<html" not in text
    assert re.findall(r"step is-(\w+)", text) == ["edited", "again", "runs"]
    assert "your text is used as its output" in text and "keep it as it is" in text
    assert "<ins>new </ins>" in text
    assert 'data-changed="input-0 output-1"' in text
    assert not Job.objects.exists()


def test_without_script_the_plan_is_a_page_that_keeps_what_was_typed(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint) | {"output:task-1": "My own text", "branch": "mine"}
    text = client.post(page(checkpoint, "fork-plan"), sent).content.decode()
    assert "<html" in text and "\nMy own text</textarea>" in text and 'value="mine"' in text
    assert re.findall(r"step is-(\w+)", text) == ["edited", "again", "runs"]
    assert f'value="{sent["key"]}"' in text


def test_the_enter_key_in_a_field_starts_nothing(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    text = client.get(page(checkpoint)).content.decode()
    form = text[text.index('<form class="fork"') :]
    first = re.search(r"<button[^>]*>", form)
    assert first and f'formaction="{page(checkpoint, "fork-plan")}"' in first[0]


def test_a_stale_text_is_named_and_can_be_run_again(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint) | {"input:topic": "ML"}
    plan = page(checkpoint, "fork-plan")
    assert "Stale:" in client.post(plan, sent).content.decode()
    text = client.post(plan, sent | {"again": ["task-1"], "keep": ["task-2"]}).content.decode()
    assert re.findall(r"step is-(\w+)", text) == ["again", "pinned", "runs"]
    client.post(page(checkpoint), sent | {"again": ["task-1"], "keep": ["task-2"]})
    assert [step["action"] for step in Job.objects.get().plan] == ["again", "pinned", "runs"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input:year": "soon"}, "must be a whole number"),
        ({"output:task-2": "{"}, "no JSON"),
        ({"output:task-1": "[redacted]"}, "stands for a secret"),
        ({"branch": "main"}, "There is a branch"),
        ({"branch": "../../etc"}, "may not"),
        ({"entry_point": "os:system"}, "no such entry point"),
        ({"again": ["task-1"], "output:task-1": "x"}, "choose one of the two"),
        ({"again": ["nobody"]}, "There is no task"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_lost(
    client: Client, person: User, checkpoint: Checkpoint, changes: dict[str, Any], words: str
) -> None:
    sent = filled(client, checkpoint) | {"input:topic": "What I typed"} | changes
    answer = client.post(page(checkpoint), sent)
    text = answer.content.decode()
    assert answer.status_code == 422 and words in text and "What I typed" in text
    assert re.search(r'id="start-button"[^>]* disabled', text)
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
@pytest.mark.parametrize("how", ["none", "unconfirmed", "changed"])
def test_an_unconfirmed_project_never_starts(
    client: Client, person: User, checkpoint: Checkpoint, name: str, how: str
) -> None:
    sent = filled(client, checkpoint, name)
    project = Project.objects.get()
    if how == "none":
        Location.objects.update(project=None)
    elif how == "unconfirmed":
        Project.objects.update(confirmed_at=None)
    else:
        project.change(interpreter=project.interpreter, environment_file="", entry_points=["other:Thing"])
    shown = client.get(page(checkpoint, name))
    project_page = reverse("project", args=[checkpoint.location.uid])
    assert shown.status_code == 302
    assert shown["Location"] == f"{project_page}?next={page(checkpoint, name).replace('/', '%2F')}"
    answer = client.post(page(checkpoint, name), sent | {"input:topic": "What I typed"})
    assert answer.status_code == 422 and project_page in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Checkpoint.State.PRUNED, "was pruned"),
        (Checkpoint.State.WRITING, "still being written"),
        (Checkpoint.State.BROKEN, "cannot be read"),
    ],
)
def test_a_checkpoint_that_does_not_stand_there_starts_nothing(
    client: Client, person: User, checkpoint: Checkpoint, name: str, state: str, words: str
) -> None:
    Checkpoint.objects.update(state=state)
    assert words in client.get(page(checkpoint, name)).content.decode()
    answer = client.post(page(checkpoint, name), filled(client, checkpoint, name))
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not Job.objects.exists()


def test_a_resume_edits_nothing_whatever_is_sent(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    forged = {"input:topic": "ML", "output:task-1": "x", "branch": "elsewhere", "again": ["task-1"]}
    answer = client.post(page(checkpoint, "resume"), filled(client, checkpoint, "resume") | forged)
    job = Job.objects.get()
    assert answer.status_code == 302
    assert (job.kind, job.branch, job.request["branch"]) == ("resume", "main", "main")
    assert (job.request["inputs"], job.request["outputs"], job.request["state"]) == ({}, {}, None)
    assert [step["action"] for step in job.plan] == ["kept", "kept", "runs"]


def test_a_resume_with_nothing_left_to_run_is_refused(
    client: Client, person: User, location: Location
) -> None:
    done = stored(location, {**CREW, "tasks": [task(1, "one")]})
    answer = client.post(page(done, "resume"), filled(client, done, "resume"))
    assert answer.status_code == 422 and "Nothing is left to run" in answer.content.decode()
    assert not Job.objects.exists()


def test_a_flow_is_forked_in_its_own_class_with_an_edited_state(
    client: Client, person: User, location: Location
) -> None:
    checkpoint = stored(location, FLOW)
    client.post(page(checkpoint), filled(client, checkpoint, state__n="2"))
    job = Job.objects.get()
    assert job.request["entity"] == "flow" and job.request["entry_point"] == "flow:Desk"
    assert job.request["state"] == {"n": 2}


def test_a_flow_without_its_class_is_refused(client: Client, person: User, location: Location) -> None:
    checkpoint = stored(location, {**FLOW, "name": "Unknown"})
    assert "needs its own class" in client.get(page(checkpoint)).content.decode()
    answer = client.post(page(checkpoint), filled(client, checkpoint) | {"entry_point": ""})
    assert answer.status_code == 422
    assert not Job.objects.exists()


def test_script_in_a_checkpoint_and_in_what_is_typed_is_escaped(
    client: Client, person: User, location: Location
) -> None:
    tasks = [task(1, SCRIPT, name=SCRIPT, agent={"role": SCRIPT}), task(2)]
    checkpoint = stored(
        location, {**CREW, "name": SCRIPT, "tasks": tasks, "checkpoint_inputs": {SCRIPT: SCRIPT}}
    )
    sent = filled(client, checkpoint) | {
        f"input:{SCRIPT}": SCRIPT * 2,
        "branch": f"#{SCRIPT}",
        "output:task-1": SCRIPT + "x",
    }
    plan = page(checkpoint, "fork-plan")
    answers = [
        client.get(page(checkpoint)),
        client.get(page(checkpoint, "resume")),
        client.post(plan, sent),
        client.post(plan, sent, headers={"HX-Request": "true"}),
        client.post(page(checkpoint), sent),
    ]
    for answer in answers:
        assert b"<script>alert" not in answer.content and b"&lt;script&gt;alert" in answer.content


@pytest.mark.parametrize("name", ["fork", "resume", "fork-plan"])
def test_a_stranger_sees_and_starts_nothing(checkpoint: Checkpoint, name: str) -> None:
    for answer in (Client().get(page(checkpoint, name)), Client().post(page(checkpoint, name), {})):
        assert answer.status_code == 302 and "/login/" in answer["Location"]
    assert not Job.objects.exists()


def test_a_forged_request_from_elsewhere_starts_nothing(person: User, checkpoint: Checkpoint) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person)
    answer = strict.post(page(checkpoint), filled(strict, checkpoint))
    assert answer.status_code == 403
    assert not Job.objects.exists()


def test_opening_and_planning_leaves_the_location_as_it_was(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    files = {path: path.read_bytes() for path in Path(checkpoint.location.path).rglob("*") if path.is_file()}
    client.post(page(checkpoint, "fork-plan"), filled(client, checkpoint))
    client.get(page(checkpoint, "resume"))
    assert {p: p.read_bytes() for p in Path(checkpoint.location.path).rglob("*") if p.is_file()} == files
