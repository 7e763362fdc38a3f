"""The look in the fork's and the resume's form: what blocks, what is lost, what is asked."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.forking import filled, is_startable, looked, page
from viewer.models import Checkpoint, Job, Look
from viewer.words import Words


def part(what: str, fate: str, name: str = "", task: int = 0) -> dict[str, Any]:
    return {"what": what, "name": name, "task": task, "agent": "", "fate": fate}


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
    looked(checkpoint, parts=[GUARDRAIL, part("tools", "project", "search", 1)])
    text = client.get(page(checkpoint, name)).content.decode()
    assert "task 3: guardrail no_shouting" in text and "1 part comes from the project" in text
    assert "CrewAI 1.15.30, Python 3.11.7" in text and not is_startable(text)
    sent = filled(client, checkpoint, name)
    accepted = sent.pop("accepted")
    answer = client.post(page(checkpoint, name), sent)
    assert answer.status_code == 422 and "agree to it" in answer.content.decode()
    for forged in ("1", "on", "0" * 16):
        assert client.post(page(checkpoint, name), sent | {"accepted": forged}).status_code == 422
    assert not Job.objects.exists()
    # What was agreed to is not what is lost now.
    looked(checkpoint, parts=[GUARDRAIL, part("callbacks", "lost", "note", 1)])
    assert client.post(page(checkpoint, name), sent | {"accepted": accepted}).status_code == 422
    looked(checkpoint, parts=[GUARDRAIL])
    assert client.post(page(checkpoint, name), sent | {"accepted": accepted}).status_code == 302
    assert Job.objects.get().request["options"]["accepted"] == ["guardrails/task 3/no_shouting"]


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_where_nothing_is_lost_nothing_is_asked(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    looked(checkpoint, parts=[part("tools", "project", "search", 1)])
    text = client.get(page(checkpoint, name)).content.decode()
    assert "Nothing is lost." in text and is_startable(text) and 'name="accepted"' not in text
    assert client.post(page(checkpoint, name), filled(client, checkpoint, name)).status_code == 302
    # Its child refuses what the look has not seen.
    assert Job.objects.get().request["options"]["accepted"] == []


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_what_blocks_cannot_be_accepted(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    looked(checkpoint, blocks=["The entry point is <not> there."], parts=[GUARDRAIL])
    text = client.get(page(checkpoint, name)).content.decode()
    assert "The entry point is &lt;not&gt; there." in text and not is_startable(text)
    assert client.post(page(checkpoint, name), filled(client, checkpoint, name)).status_code == 422
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["fork", "resume"])
def test_a_look_that_is_not_back_or_has_failed_is_accepted_as_not_known(
    client: Client, person: User, checkpoint: Checkpoint, name: str
) -> None:
    text = client.get(page(checkpoint, name)).content.decode()
    look = Look.objects.get()
    assert reverse("look", args=[look.pk]) in text and not is_startable(text)
    sent = filled(client, checkpoint, name)
    unknown = sent.pop("accepted")
    assert client.post(page(checkpoint, name), sent).status_code == 422
    look.fail(Words("It took longer than 60 seconds, and was ended."))
    failed = client.post(page(checkpoint, name), sent).content.decode()
    assert "It took longer than 60 seconds" in failed and "what is lost is not known" in failed
    assert not Job.objects.exists()
    # It came back after all: not knowing is not what the person agrees to any more.
    looked(checkpoint, parts=[GUARDRAIL])
    assert client.post(page(checkpoint, name), sent | {"accepted": unknown}).status_code == 422
    look.fail(Words("again"))
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
        assert 'id="look-wait"' in text and not is_startable(text)
    assert set(Look.objects.values_list("entry_point", flat=True)) == {"crew:build", ""}


def test_the_page_is_told_when_the_look_is_back(client: Client, person: User, checkpoint: Checkpoint) -> None:
    client.get(page(checkpoint))
    look = Look.objects.get()
    waiting = client.get(reverse("look", args=[look.pk]))
    assert (waiting.status_code, waiting.get("HX-Trigger")) == (204, None)
    looked(checkpoint)
    assert client.get(reverse("look", args=[look.pk]))["HX-Trigger"] == "looked"
    assert Client().get(reverse("look", args=[look.pk])).status_code == 302


def test_a_page_that_is_asked_for_anew_looks_again_where_a_look_has_failed(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    client.get(page(checkpoint))
    Look.objects.get().fail(Words("no"))
    sent = filled(client, checkpoint)
    assert Look.objects.get().status == Look.Status.WAITING
    Look.objects.get().fail(Words("no"))
    client.post(page(checkpoint, "fork-plan"), sent | {"branch": "x"})
    assert Look.objects.get().status == Look.Status.FAILED
