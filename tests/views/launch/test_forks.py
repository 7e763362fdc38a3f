"""The fork and resume pages show the plan before the start and start a job once."""

import re
from pathlib import Path

from django.contrib.auth.models import User
from django.test import Client

from tests.forms.samples import task
from tests.views.forking import CREW, FLOW, SECRET, filled, page, stored
from viewer.models import Checkpoint, Job, Location

SCRIPT = "</textarea><script>alert(1)</script>"


def test_the_form_shows_each_input_by_its_type_and_no_secret(runner: Client, checkpoint: Checkpoint) -> None:
    text = runner.get(page(checkpoint)).content.decode()
    assert 'name="input:year" value="2026"' in text and "whole number" in text
    assert "The research" in text and "&quot;holds&quot;: true" in text
    assert "Nothing has run yet" in text
    assert SECRET not in text and "Secret. Leave empty to use the stored value" in text
    assert not Job.objects.exists()


def test_a_start_creates_one_job_with_the_changed_values_only(
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


def test_a_form_that_is_sent_twice_starts_one_job(runner: Client, checkpoint: Checkpoint) -> None:
    sent = filled(runner, checkpoint)
    answers = [runner.post(page(checkpoint), sent) for _ in range(3)]
    assert len({answer["Location"] for answer in answers}) == 1
    assert Job.objects.count() == 1


def test_a_changed_form_with_a_used_key_asks_before_it_starts_again(
    runner: Client, checkpoint: Checkpoint
) -> None:
    sent = filled(runner, checkpoint)
    runner.post(page(checkpoint), sent)
    again = runner.post(page(checkpoint), sent | {"input:topic": "ML", "branch": "other"})
    assert again.status_code == 422 and "has already started a run" in again.content.decode()
    assert Job.objects.count() == 1
    key = re.search(r'name="key" value="([^"]+)"', again.content.decode())
    assert key and key[1] != sent["key"]
    runner.post(page(checkpoint), sent | {"input:topic": "ML", "branch": "other", "key": key[1]})
    assert Job.objects.count() == 2


def test_the_plan_shows_kept_edited_and_running_steps_and_starts_nothing(
    runner: Client, checkpoint: Checkpoint
) -> None:
    sent = filled(runner, checkpoint) | {"output:task-1": "The new research", "input:topic": "ML"}
    answer = runner.post(page(checkpoint, "fork-plan"), sent, headers={"HX-Request": "true"})
    text = answer.content.decode()
    assert answer.status_code == 200 and "<html" not in text
    assert re.findall(r"step is-(\w+)", text) == ["edited", "again", "runs"]
    assert "your text is used as its output" in text and "Hold output" in text
    assert "<ins>new </ins>" in text
    assert 'data-changed="input-0 output-1"' in text
    assert not Job.objects.exists()


def test_without_scripts_the_plan_is_a_page_with_the_typed_values(
    runner: Client, checkpoint: Checkpoint
) -> None:
    sent = filled(runner, checkpoint) | {"output:task-1": "My own text", "branch": "mine"}
    text = runner.post(page(checkpoint, "fork-plan"), sent).content.decode()
    assert "<html" in text and "\nMy own text</textarea>" in text and 'value="mine"' in text
    assert re.findall(r"step is-(\w+)", text) == ["edited", "again", "runs"]
    assert f'value="{sent["key"]}"' in text


def test_the_enter_key_in_a_field_starts_nothing(runner: Client, checkpoint: Checkpoint) -> None:
    text = runner.get(page(checkpoint)).content.decode()
    form = text[text.index('<form class="fork"') :]
    first = re.search(r"<button[^>]*>", form)
    assert first and f'formaction="{page(checkpoint, "fork-plan")}"' in first[0]


def test_a_stale_output_is_named_and_can_be_run_again(runner: Client, checkpoint: Checkpoint) -> None:
    sent = filled(runner, checkpoint) | {"input:topic": "ML"}
    plan = page(checkpoint, "fork-plan")
    assert "Stale:" in runner.post(plan, sent).content.decode()
    text = runner.post(plan, sent | {"again": ["task-1"], "keep": ["task-2"]}).content.decode()
    assert re.findall(r"step is-(\w+)", text) == ["again", "pinned", "runs"]
    runner.post(page(checkpoint), sent | {"again": ["task-1"], "keep": ["task-2"]})
    assert [step["action"] for step in Job.objects.get().plan] == ["again", "pinned", "runs"]


def test_one_button_selects_all_stale_tasks_to_run_again(runner: Client, checkpoint: Checkpoint) -> None:
    sent = filled(runner, checkpoint) | {"input:topic": "ML"}
    text = runner.post(page(checkpoint, "fork-plan"), sent | {"again-stale": "1"}).content.decode()
    assert re.findall(r"step is-(\w+)", text) == ["again", "again", "runs"]
    assert len(re.findall(r'name="again" value="task-\d"[^>]* checked', text)) == 2
    assert "again-stale" not in text and not Job.objects.exists()


def test_a_resume_ignores_edits(runner: Client, checkpoint: Checkpoint) -> None:
    forged = {"input:topic": "ML", "output:task-1": "x", "branch": "elsewhere", "again": ["task-1"]}
    answer = runner.post(page(checkpoint, "resume"), filled(runner, checkpoint, "resume") | forged)
    job = Job.objects.get()
    assert answer.status_code == 302
    assert (job.kind, job.branch, job.request["branch"]) == ("resume", "main", "main")
    assert (job.request["inputs"], job.request["outputs"], job.request["state"]) == ({}, {}, None)
    assert [step["action"] for step in job.plan] == ["kept", "kept", "runs"]


def test_a_flow_is_forked_with_an_edited_state(runner: Client, location: Location) -> None:
    checkpoint = stored(location, FLOW)
    runner.post(page(checkpoint), filled(runner, checkpoint, state__n="2"))
    job = Job.objects.get()
    assert job.request["entity"] == "flow" and job.request["entry_point"] == "flow:Desk"
    assert job.request["state"] == {"n": 2}


def test_script_in_a_checkpoint_and_in_typed_values_is_escaped(runner: Client, location: Location) -> None:
    tasks = [task(1, SCRIPT, name=SCRIPT, agent={"role": SCRIPT}), task(2)]
    checkpoint = stored(
        location, {**CREW, "name": SCRIPT, "tasks": tasks, "checkpoint_inputs": {SCRIPT: SCRIPT}}
    )
    sent = filled(runner, checkpoint) | {
        f"input:{SCRIPT}": SCRIPT * 2,
        "branch": f"#{SCRIPT}",
        "output:task-1": SCRIPT + "x",
    }
    plan = page(checkpoint, "fork-plan")
    answers = [
        runner.get(page(checkpoint)),
        runner.get(page(checkpoint, "resume")),
        runner.post(plan, sent),
        runner.post(plan, sent, headers={"HX-Request": "true"}),
        runner.post(page(checkpoint), sent),
    ]
    for answer in answers:
        assert b"<script>alert" not in answer.content and b"&lt;script&gt;alert" in answer.content


def test_opening_and_planning_leave_the_location_unchanged(runner: Client, checkpoint: Checkpoint) -> None:
    files = {path: path.read_bytes() for path in Path(checkpoint.location.path).rglob("*") if path.is_file()}
    runner.post(page(checkpoint, "fork-plan"), filled(runner, checkpoint))
    runner.get(page(checkpoint, "resume"))
    assert {p: p.read_bytes() for p in Path(checkpoint.location.path).rglob("*") if p.is_file()} == files


def test_a_fork_without_a_typed_name_is_named_for_its_edit(runner: Client, checkpoint: Checkpoint) -> None:
    text = runner.get(page(checkpoint)).content.decode()
    assert re.search(r'name="branch"\s+value=""\s+placeholder="fork"', text)
    sent = filled(runner, checkpoint, input__year="2030")
    plan = runner.post(f"{page(checkpoint)}plan/", sent, headers={"HX-Request": "true"}).content.decode()
    assert 'data-branch="year-2030"' in plan and "branch year-2030" in plan
    for expected in ("year-2030", "year-2030-2"):
        runner.post(page(checkpoint), filled(runner, checkpoint, input__year="2030"))
        assert Job.objects.latest("created_at").branch == expected


def test_each_editable_value_leads_to_its_field(runner: Client, checkpoint: Checkpoint) -> None:
    address = checkpoint.get_absolute_url()
    texts = [runner.get(f"{address}&tab={tab}").content.decode() for tab in ("inputs", "tasks", "output")]
    links = {link for text in texts for link in re.findall(r'href="([^"]+\?edit=[^"]+)"', text)}
    assert {f"{page(checkpoint)}?edit={part}" for part in ("inputs%3Ayear", "outputs%3Atask-1")} <= links
    for link in links:
        form = runner.get(link).content.decode()
        opened = re.findall(r'data-opened="([^"]+)"', form)
        assert opened and f'id="{opened[0]}"' in form, link
    assert "data-opened" not in runner.get(f"{page(checkpoint)}?edit=inputs:nothing").content.decode()


def test_who_may_only_read_gets_no_link_to_a_form(reader: Client, checkpoint: Checkpoint) -> None:
    assert "?edit=" not in reader.get(f"{checkpoint.get_absolute_url()}&tab=tasks").content.decode()


def test_a_form_opened_by_its_address_does_not_begin_with_a_refusal(
    runner: Client, checkpoint: Checkpoint
) -> None:
    text = runner.get(page(checkpoint)).content.decode()
    assert "Run the preflight check first." in text
    assert "This cannot start" not in text and "notice-bad" not in text


def test_a_preset_of_events_is_sent_with_those_that_are_selected(
    runner: Client, checkpoint: Checkpoint
) -> None:
    text = runner.get(page(checkpoint)).content.decode()
    assert text.index("every finished task") < text.index("All events")
    sent = filled(runner, checkpoint, checkpoint_preset="task_completed")
    sent["checkpoint_events"] = ["task_failed"]
    runner.post(page(checkpoint), sent)
    assert Job.objects.get().request["options"]["checkpoints"]["events"] == ["task_completed", "task_failed"]
