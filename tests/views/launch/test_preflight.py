"""The preflight check in the fork and resume forms: what blocks, what is lost and its questions."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.forking import checked, filled, is_startable, page
from viewer.messages.message import plain_text
from viewer.models import AcceptedEffect, Checkpoint, Job, PreflightCheck, Project, accept_effects


def part(what: str, fate: str, name: str = "", task: int = 0) -> dict[str, Any]:
    return {"what": what, "name": name, "task": task, "agent": "", "fate": fate}


def effect(kind: str, name: str, digest: str = "") -> dict[str, str]:
    return {"kind": kind, "name": name, "detail": "", "digest": digest, "key": f"{kind}{digest}{name}"}


GUARDRAIL = part("guardrails", "lost", "no_shouting", 3)
QUESTION = {
    "kind": "task",
    "saved": "task-2",
    "position": 2,
    "title": "Check it",
    "reason": "changed",
    "choices": [["2", "Check it twice"], ["4", "Print it"], ["-", ""]],
}


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_the_shown_losses_have_to_be_accepted(runner: Client, checkpoint: Checkpoint, name: str) -> None:
    checked(checkpoint, components=[GUARDRAIL, part("tools", "project", "search", 1)])
    text = runner.get(page(checkpoint, name)).content.decode()
    assert "task 3: guardrail no_shouting" in text and "1 component from the project" in text
    assert "CrewAI 1.15.30, Python 3.11.7" in text and not is_startable(text)
    sent = filled(runner, checkpoint, name)
    accepted = sent.pop("accepted")
    answer = runner.post(page(checkpoint, name), sent)
    assert answer.status_code == 422 and "accept it" in answer.content.decode()
    for forged in ("1", "on", "0" * 16):
        assert runner.post(page(checkpoint, name), sent | {"accepted": forged}).status_code == 422
    assert not Job.objects.exists()
    # The consent is for other losses.
    checked(checkpoint, components=[GUARDRAIL, part("callbacks", "lost", "note", 1)])
    assert runner.post(page(checkpoint, name), sent | {"accepted": accepted}).status_code == 422
    checked(checkpoint, components=[GUARDRAIL])
    assert runner.post(page(checkpoint, name), sent | {"accepted": accepted}).status_code == 302
    assert Job.objects.get().request["options"]["accepted"] == ["guardrails/task 3/no_shouting"]


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_without_losses_no_consent_is_needed(runner: Client, checkpoint: Checkpoint, name: str) -> None:
    checked(checkpoint, components=[part("tools", "project", "search", 1)])
    text = runner.get(page(checkpoint, name)).content.decode()
    assert "Everything restores." in text and is_startable(text) and 'name="accepted"' not in text
    assert runner.post(page(checkpoint, name), filled(runner, checkpoint, name)).status_code == 302
    # The runner refuses losses that the check did not find.
    assert Job.objects.get().request["options"]["accepted"] == []


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_a_blocking_finding_cannot_be_accepted(runner: Client, checkpoint: Checkpoint, name: str) -> None:
    checked(checkpoint, blocks=["The entry point is <not> there."], components=[GUARDRAIL])
    text = runner.get(page(checkpoint, name)).content.decode()
    assert "The entry point is &lt;not&gt; there." in text and not is_startable(text)
    assert runner.post(page(checkpoint, name), filled(runner, checkpoint, name)).status_code == 422
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_an_unfinished_or_failed_check_is_accepted_as_unknown(
    runner: Client, checkpoint: Checkpoint, name: str
) -> None:
    text = runner.get(page(checkpoint, name)).content.decode()
    # Opening the form starts nothing.
    assert not PreflightCheck.objects.exists() and not is_startable(text) and 'name="accepted"' not in text
    sent = filled(runner, checkpoint, name)
    check = PreflightCheck.objects.get()
    text = runner.get(page(checkpoint, name)).content.decode()
    assert reverse("preflight", args=[check.pk]) in text and not is_startable(text)
    unknown = sent.pop("accepted")
    assert runner.post(page(checkpoint, name), sent).status_code == 422
    check.fail(plain_text("It took longer than 60 seconds, and was ended."))
    failed = runner.post(page(checkpoint, name), sent).content.decode()
    assert "It took longer than 60 seconds" in failed and "the losses are unknown" in failed
    assert not Job.objects.exists()
    # The check finished after all, so the consent to unknown losses does not count.
    checked(checkpoint, components=[GUARDRAIL])
    assert runner.post(page(checkpoint, name), sent | {"accepted": unknown}).status_code == 422
    check.fail(plain_text("again"))
    assert runner.post(page(checkpoint, name), sent | {"accepted": unknown}).status_code == 302
    assert Job.objects.get().request["options"]["accepted"] == ["*"]


def test_uncertain_matches_are_questions_and_the_answers_reach_the_run(
    runner: Client, checkpoint: Checkpoint
) -> None:
    checked(checkpoint, questions=[QUESTION])
    text = runner.get(page(checkpoint)).content.decode()
    assert "task 2, “Check it”, is" in text and "2. Check it twice" in text and not is_startable(text)
    sent = filled(runner, checkpoint)
    plan = page(checkpoint, "fork-plan")
    for answer in ({}, {"match:task-2": ""}, {"match:task-2": "9"}):
        text = runner.post(plan, sent | answer).content.decode()
        assert "choose which one it is" in text and not is_startable(text)
    # The task that was not chosen does not run, which has to be accepted.
    text = runner.post(plan, sent | {"match:task-2": "2"}).content.decode()
    assert "task 4. Print it does not run" in text and not is_startable(text)
    mark = re.search(r'name="accepted" value="(\w+)"', text)
    assert mark
    sent |= {"match:task-2": "2", "accepted": mark[1]}
    assert runner.post(page(checkpoint), sent).status_code == 302
    assert Job.objects.get().request["options"] == {
        "accepted": ["tasks/4. Print it"],
        "matches": {"task-2": "2"},
    }


def test_one_task_of_the_project_cannot_be_chosen_twice(runner: Client, checkpoint: Checkpoint) -> None:
    checked(checkpoint, questions=[QUESTION, {**QUESTION, "saved": "task-1", "position": 1}])
    both = {"match:task-1": "2", "match:task-2": "2"}
    text = runner.post(page(checkpoint, "fork-plan"), filled(runner, checkpoint) | both).content.decode()
    assert text.count("it was chosen twice") >= 2 and not is_startable(text)


def test_each_entry_point_has_its_own_check(runner: Client, checkpoint: Checkpoint) -> None:
    checked(checkpoint, "crew:build")
    sent = filled(runner, checkpoint)
    for name in ("fork", "resume"):
        text = runner.post(page(checkpoint, f"{name}-plan"), sent | {"entry_point": ""}).content.decode()
        assert 'id="preflight-wait"' in text and not is_startable(text)
    assert set(PreflightCheck.objects.values_list("entry_point", flat=True)) == {"crew:build", ""}


def test_the_page_is_notified_when_the_check_is_finished(runner: Client, checkpoint: Checkpoint) -> None:
    filled(runner, checkpoint)
    check = PreflightCheck.objects.get()
    waiting = runner.get(reverse("preflight", args=[check.pk]))
    assert (waiting.status_code, waiting.get("HX-Trigger")) == (204, None)
    checked(checkpoint)
    assert runner.get(reverse("preflight", args=[check.pk]))["HX-Trigger"] == "preflight"
    assert Client().get(reverse("preflight", args=[check.pk])).status_code == 302


def test_a_failed_check_is_shown_and_only_a_person_retries_it(runner: Client, checkpoint: Checkpoint) -> None:
    sent = filled(runner, checkpoint)
    PreflightCheck.objects.get().fail(plain_text("It <broke>."))
    for _time in range(3):
        text = runner.get(page(checkpoint), headers={"Sec-Fetch-Site": "same-origin"}).content.decode()
        assert "It &lt;broke&gt;." in text and "Check again" in text and ", load" not in text
        runner.post(page(checkpoint, "fork-plan"), sent | {"branch": "x"})
    assert PreflightCheck.objects.get().status == PreflightCheck.Status.FAILED
    runner.post(page(checkpoint, "fork-plan"), sent | {"check": "1"})
    assert PreflightCheck.objects.get().status == PreflightCheck.Status.WAITING


@pytest.mark.parametrize("name", ["fork", "resume", "new-sweep"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
def test_opening_the_form_starts_a_check_only_from_our_pages(
    runner: Client, checkpoint: Checkpoint, name: str, site: str
) -> None:
    headers = {"Sec-Fetch-Site": site} if site else {"Referer": "http://evil.example/"}
    text = runner.get(page(checkpoint, name), headers=headers).content.decode()
    assert 'name="check"' in text and ", load" not in text
    ours = {"Sec-Fetch-Site": "same-origin"} if site else {"Referer": "http://testserver/"}
    assert ", load" in runner.get(page(checkpoint, name), headers=ours).content.decode()
    assert not PreflightCheck.objects.exists() and not Job.objects.exists()


def test_effects_are_accepted_once_and_only_new_ones_are_shown(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    module, host = effect("module", "tools.search", "a1"), effect("host", "search.example")
    check = checked(checkpoint, effects=[module], is_complete=False)
    text = client.get(page(checkpoint)).content.decode()
    assert "Effects of this checkpoint" in text and "tools.search" in text and not is_startable(text)
    sent = filled(client, checkpoint)
    assert "accepted" not in sent
    assert client.post(page(checkpoint), sent).status_code == 422
    for forged in ("1", "", "0" * 16):
        client.post(page(checkpoint, "fork-plan"), sent | {"accept-effects": forged})
    assert not AcceptedEffect.objects.exists()
    mark = re.findall(r'name="accept-effects" value="(\w+)"', text)[0]
    client.post(page(checkpoint, "fork-plan"), sent | {"accept-effects": mark})
    accepted = AcceptedEffect.objects.get()
    assert (accepted.key, accepted.digest, accepted.accepted_by) == (module["key"], "a1", person)
    # The second phase may begin.
    check.refresh_from_db()
    assert check.status == PreflightCheck.Status.WAITING
    checked(checkpoint, effects=[module])
    text = client.get(page(checkpoint)).content.decode()
    assert is_startable(text) and "1 accepted effect" in text
    assert client.post(page(checkpoint), filled(client, checkpoint)).status_code == 302
    checked(checkpoint, effects=[module, host], is_complete=False)
    text = client.get(page(checkpoint)).content.decode()
    assert "New effects of this checkpoint" in text and not is_startable(text)
    shown = text[text.index('id="accept-effects"') : text.index("1 accepted effect")]
    assert "search.example" in shown and "tools.search" not in shown


def test_a_changed_module_needs_consent_again(client: Client, person: User, checkpoint: Checkpoint) -> None:
    project = checkpoint.location.project
    assert project
    accept_effects(project, [effect("module", "tools.search", "a1")], person)
    checked(checkpoint, effects=[effect("module", "tools.search", "a1")])
    assert is_startable(client.get(page(checkpoint)).content.decode())
    checked(checkpoint, effects=[effect("module", "tools.search", "b2")], is_complete=False)
    text = client.get(page(checkpoint)).content.decode()
    assert not is_startable(text) and "tools.search" in text[text.index('id="accept-effects"') :]


def test_effects_accepted_for_one_project_do_not_count_for_others(
    checkpoint: Checkpoint, person: User
) -> None:
    other = Project.objects.create(folder="/elsewhere", interpreter="/usr/bin/python3")
    accept_effects(other, [effect("host", "search.example")], person)
    check = checked(checkpoint, effects=[effect("host", "search.example")], is_complete=False)
    assert [one["name"] for one in check.new_effects] == ["search.example"]


def test_an_effect_that_was_accepted_without_its_tool_does_not_count(checkpoint: Checkpoint) -> None:
    project = checkpoint.location.project
    assert project
    AcceptedEffect.objects.create(project=project, key="k", kind="file", name="out.txt", is_bound=False)
    assert project.accepted_effects.keys() == set()
    # Accepted again, it counts, even under the same key.
    accept_effects(project, [{"key": "k", "kind": "file", "name": "out.txt"}], None)
    assert project.accepted_effects.keys() == {"k"}
