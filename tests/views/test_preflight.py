"""The look in the fork's and the resume's form: what blocks, what is lost, what is asked."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.forking import filled, is_startable, looked, page
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
def test_what_is_lost_has_to_be_accepted_as_it_is_shown(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    looked(checkpoint, components=[GUARDRAIL, part("tools", "project", "search", 1)])
    text = client.get(page(checkpoint, name)).content.decode()
    assert "task 3: guardrail no_shouting" in text and "1 component from the project" in text
    assert "CrewAI 1.15.30, Python 3.11.7" in text and not is_startable(text)
    sent = filled(client, checkpoint, name)
    accepted = sent.pop("accepted")
    answer = client.post(page(checkpoint, name), sent)
    assert answer.status_code == 422 and "accept it" in answer.content.decode()
    for forged in ("1", "on", "0" * 16):
        assert client.post(page(checkpoint, name), sent | {"accepted": forged}).status_code == 422
    assert not Job.objects.exists()
    # What was agreed to is not what is lost now.
    looked(checkpoint, components=[GUARDRAIL, part("callbacks", "lost", "note", 1)])
    assert client.post(page(checkpoint, name), sent | {"accepted": accepted}).status_code == 422
    looked(checkpoint, components=[GUARDRAIL])
    assert client.post(page(checkpoint, name), sent | {"accepted": accepted}).status_code == 302
    assert Job.objects.get().request["options"]["accepted"] == ["guardrails/task 3/no_shouting"]


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_where_nothing_is_lost_nothing_is_asked(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    looked(checkpoint, components=[part("tools", "project", "search", 1)])
    text = client.get(page(checkpoint, name)).content.decode()
    assert "Everything restores." in text and is_startable(text) and 'name="accepted"' not in text
    assert client.post(page(checkpoint, name), filled(client, checkpoint, name)).status_code == 302
    # Its child refuses what the look has not seen.
    assert Job.objects.get().request["options"]["accepted"] == []


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_what_blocks_cannot_be_accepted(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    looked(checkpoint, blocks=["The entry point is <not> there."], components=[GUARDRAIL])
    text = client.get(page(checkpoint, name)).content.decode()
    assert "The entry point is &lt;not&gt; there." in text and not is_startable(text)
    assert client.post(page(checkpoint, name), filled(client, checkpoint, name)).status_code == 422
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_a_look_that_is_not_back_or_has_failed_is_accepted_as_not_known(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    text = client.get(page(checkpoint, name)).content.decode()
    # Opening the form starts nothing.
    assert not PreflightCheck.objects.exists() and not is_startable(text) and 'name="accepted"' not in text
    sent = filled(client, checkpoint, name)
    look = PreflightCheck.objects.get()
    text = client.get(page(checkpoint, name)).content.decode()
    assert reverse("preflight", args=[look.pk]) in text and not is_startable(text)
    unknown = sent.pop("accepted")
    assert client.post(page(checkpoint, name), sent).status_code == 422
    look.fail(plain_text("It took longer than 60 seconds, and was ended."))
    failed = client.post(page(checkpoint, name), sent).content.decode()
    assert "It took longer than 60 seconds" in failed and "the losses are unknown" in failed
    assert not Job.objects.exists()
    # It came back after all: not knowing is not what the person agrees to any more.
    looked(checkpoint, components=[GUARDRAIL])
    assert client.post(page(checkpoint, name), sent | {"accepted": unknown}).status_code == 422
    look.fail(plain_text("again"))
    assert client.post(page(checkpoint, name), sent | {"accepted": unknown}).status_code == 302
    assert Job.objects.get().request["options"]["accepted"] == ["*"]


def test_what_is_not_certain_is_asked_and_the_answers_reach_the_run(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    looked(checkpoint, questions=[QUESTION])
    text = client.get(page(checkpoint)).content.decode()
    assert "task 2, “Check it”, is" in text and "2. Check it twice" in text and not is_startable(text)
    sent = filled(client, checkpoint)
    plan = page(checkpoint, "fork-plan")
    for answer in ({}, {"match:task-2": ""}, {"match:task-2": "9"}):
        text = client.post(plan, sent | answer).content.decode()
        assert "choose which one it is" in text and not is_startable(text)
    # The one that is not chosen does not run: that has to be accepted.
    text = client.post(plan, sent | {"match:task-2": "2"}).content.decode()
    assert "task 4. Print it does not run" in text and not is_startable(text)
    mark = re.search(r'name="accepted" value="(\w+)"', text)
    assert mark
    sent |= {"match:task-2": "2", "accepted": mark[1]}
    assert client.post(page(checkpoint), sent).status_code == 302
    assert Job.objects.get().request["options"] == {
        "accepted": ["tasks/4. Print it"],
        "matches": {"task-2": "2"},
    }


def test_one_of_the_projects_own_cannot_be_chosen_for_two(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    looked(checkpoint, questions=[QUESTION, {**QUESTION, "saved": "task-1", "position": 1}])
    both = {"match:task-1": "2", "match:task-2": "2"}
    text = client.post(page(checkpoint, "fork-plan"), filled(client, checkpoint) | both).content.decode()
    assert text.count("it was chosen twice") >= 2 and not is_startable(text)


def test_another_entry_point_has_a_look_of_its_own(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    looked(checkpoint, "crew:build")
    sent = filled(client, checkpoint)
    for name in ("fork", "resume"):
        text = client.post(page(checkpoint, f"{name}-plan"), sent | {"entry_point": ""}).content.decode()
        assert 'id="preflight-wait"' in text and not is_startable(text)
    assert set(PreflightCheck.objects.values_list("entry_point", flat=True)) == {"crew:build", ""}


def test_the_page_is_told_when_the_look_is_back(client: Client, person: User, checkpoint: Checkpoint) -> None:
    filled(client, checkpoint)
    look = PreflightCheck.objects.get()
    waiting = client.get(reverse("preflight", args=[look.pk]))
    assert (waiting.status_code, waiting.get("HX-Trigger")) == (204, None)
    looked(checkpoint)
    assert client.get(reverse("preflight", args=[look.pk]))["HX-Trigger"] == "preflight"
    assert Client().get(reverse("preflight", args=[look.pk])).status_code == 302


def test_a_failed_check_is_shown_and_only_a_person_starts_it_again(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sent = filled(client, checkpoint)
    PreflightCheck.objects.get().fail(plain_text("It <broke>."))
    for _time in range(3):
        text = client.get(page(checkpoint), headers={"Sec-Fetch-Site": "same-origin"}).content.decode()
        assert "It &lt;broke&gt;." in text and "Check again" in text and ", load" not in text
        client.post(page(checkpoint, "fork-plan"), sent | {"branch": "x"})
    assert PreflightCheck.objects.get().status == PreflightCheck.Status.FAILED
    client.post(page(checkpoint, "fork-plan"), sent | {"check": "1"})
    assert PreflightCheck.objects.get().status == PreflightCheck.Status.WAITING


@pytest.mark.parametrize("name", ["fork", "resume", "new-sweep"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
def test_opening_the_form_starts_nothing_and_checks_itself_only_from_our_pages(
    client: Client, person: User, checkpoint: Checkpoint, name: str, site: str
) -> None:
    headers = {"Sec-Fetch-Site": site} if site else {"Referer": "http://evil.example/"}
    text = client.get(page(checkpoint, name), headers=headers).content.decode()
    assert 'name="check"' in text and ", load" not in text
    ours = {"Sec-Fetch-Site": "same-origin"} if site else {"Referer": "http://testserver/"}
    assert ", load" in client.get(page(checkpoint, name), headers=ours).content.decode()
    assert not PreflightCheck.objects.exists() and not Job.objects.exists()


def test_effects_are_accepted_once_and_a_new_one_is_shown_alone(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    module, host = effect("module", "tools.search", "a1"), effect("host", "search.example")
    look = looked(checkpoint, effects=[module], is_complete=False)
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
    # Now the second phase may begin.
    look.refresh_from_db()
    assert look.status == PreflightCheck.Status.WAITING
    looked(checkpoint, effects=[module])
    text = client.get(page(checkpoint)).content.decode()
    assert is_startable(text) and "1 accepted effect" in text
    assert client.post(page(checkpoint), filled(client, checkpoint)).status_code == 302
    looked(checkpoint, effects=[module, host], is_complete=False)
    text = client.get(page(checkpoint)).content.decode()
    assert "New effects of this checkpoint" in text and not is_startable(text)
    shown = text[text.index('id="accept-effects"') : text.index("1 accepted effect")]
    assert "search.example" in shown and "tools.search" not in shown


def test_a_changed_module_asks_again(client: Client, person: User, checkpoint: Checkpoint) -> None:
    project = checkpoint.location.project
    assert project
    accept_effects(project, [effect("module", "tools.search", "a1")], person)
    looked(checkpoint, effects=[effect("module", "tools.search", "a1")])
    assert is_startable(client.get(page(checkpoint)).content.decode())
    looked(checkpoint, effects=[effect("module", "tools.search", "b2")], is_complete=False)
    text = client.get(page(checkpoint)).content.decode()
    assert not is_startable(text) and "tools.search" in text[text.index('id="accept-effects"') :]


def test_what_is_accepted_for_one_project_counts_for_no_other(checkpoint: Checkpoint, person: User) -> None:
    other = Project.objects.create(folder="/elsewhere", interpreter="/usr/bin/python3")
    accept_effects(other, [effect("host", "search.example")], person)
    look = looked(checkpoint, effects=[effect("host", "search.example")], is_complete=False)
    assert [one["name"] for one in look.new_effects] == ["search.example"]
