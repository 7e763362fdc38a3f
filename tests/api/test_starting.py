"""Starts over HTTP: once for each key, with the refusals of the terminal, and no file of the server."""

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.api.conftest import program_of, with_role
from viewer.models import (
    AuditEntry,
    Checkpoint,
    IdempotencyKey,
    Job,
    Level,
    Location,
    Project,
    Question,
    Sweep,
)
from viewer.web.api.interface import api, options_of
from viewer.web.api.starting import NOT_IN_BODY


def sent(client: Client, address: str, body: Any = None, key: str | None = "once") -> Any:
    """Send a body as JSON. A text is sent as it is."""
    data = body if isinstance(body, str) else json.dumps({} if body is None else body)
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(address, data, content_type="application/json", headers=headers)


@pytest.fixture
def fork(checkpoint: Checkpoint) -> str:
    """Return the address of a fork."""
    return reverse("api-fork", args=[checkpoint.pk])


def test_a_fork_is_started_for_the_person(checkpoint: Checkpoint, operator: Client, fork: str) -> None:
    response = sent(operator, fork, {"branch": "what-if", "input": ["topic=coffee"], "limit": ["tokens=5"]})
    assert response.status_code == 201, response.content
    document, job = response.json(), Job.objects.get()
    assert document["job"] == str(job.pk) and document["status"] == "queued"
    assert document["branch"] == "what-if" and document["plan"]
    assert job.requested_by and job.requested_by.get_username() == "olga"
    assert (job.request["inputs"], job.limits) == ({"topic": "coffee"}, {"tokens": 5})
    assert operator.get(f"/api/jobs/{job.pk}").json() == document


def test_a_plan_starts_nothing_and_needs_no_key(operator: Client, fork: str) -> None:
    response = sent(operator, fork, {"plan": True}, key=None)
    assert (response.status_code, response.json()["status"]) == (200, "planned")
    assert not Job.objects.exists() and not IdempotencyKey.objects.exists()


def test_a_repeated_start_gets_the_first_job(operator: Client, fork: str) -> None:
    # Its branch would get another name.
    first = sent(operator, fork)
    again = sent(operator, fork)
    assert (first.status_code, again.status_code) == (201, 200), again.content
    assert first.json() == again.json() and Job.objects.count() == 1
    assert sent(operator, fork, key="another").status_code == 201
    assert Job.objects.count() == 2


def test_a_key_is_of_one_request_of_one_person(checkpoint: Checkpoint, operator: Client, fork: str) -> None:
    assert sent(operator, fork, {"branch": "a"}).status_code == 201
    for address, body in (
        (fork, {"branch": "b"}),
        (reverse("api-resume", args=[checkpoint.pk]), {"branch": "a"}),
    ):
        assert sent(operator, address, body).status_code == 422
    assert Job.objects.count() == 1
    other = program_of(with_role("otto", Level.OPERATOR), Level.OPERATOR)
    assert sent(other, fork, {"branch": "c"}).status_code == 201


def test_an_old_key_starts_nothing(operator: Client, fork: str) -> None:
    assert sent(operator, fork).status_code == 201
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert sent(operator, fork).status_code == 200
    # Such as by retention: the run must not start again.
    Job.objects.all().delete()
    assert sent(operator, fork).status_code == 409
    assert not Job.objects.exists()


@pytest.mark.parametrize("key", [None, "", " ", "a b", "ä", "a" * 201])
def test_a_start_without_a_key_is_refused(operator: Client, fork: str, key: str | None) -> None:
    assert sent(operator, fork, key=key).status_code == 422
    assert not Job.objects.exists()


def test_what_is_refused_may_be_sent_again(checkpoint: Checkpoint, operator: Client, fork: str) -> None:
    assert sent(operator, fork, {"branch": "main"}).status_code == 409
    response = sent(operator, fork, {"branch": "main"})
    assert response.status_code == 409 and response.json()["error"] and response.json()["job"] is None
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_simultaneous_starts_one_starts(checkpoint: Checkpoint, operator: Client, fork: str) -> None:
    gate, found = threading.Barrier(4), []

    def send_at_once() -> None:
        gate.wait()
        found.append(sent(operator, fork))
        connections.close_all()

    threads = [threading.Thread(target=send_at_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {response.status_code for response in found} <= {200, 201}
    assert Job.objects.count() == 1
    assert {response.json()["job"] for response in found} == {str(Job.objects.get().pk)}


# What a program cannot do.


def test_no_file_of_the_server_is_read(operator: Client, fork: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"stolen": true}')
    for body in ({"state": f"@{secret}"}, {"configurable": [f"a=@{secret}"]}, {"message": [f"m=@{secret}"]}):
        response = sent(operator, fork, body | {"plan": True}, key=None)
        assert "stolen" not in response.content.decode(), body
    sent(operator, fork, {"output": [f"1=@{secret}"]})
    assert "stolen" not in json.dumps(list(Job.objects.values_list("request", flat=True)))


def test_stdin_is_not_read(checkpoint: Checkpoint, operator: Client) -> None:
    response = sent(operator, reverse("api-note", args=[checkpoint.pk]), {"note": "-", "star": True})
    assert (response.json()["note"], response.json()["starred"]) == ("-", True)


@pytest.mark.parametrize("command", ["fork", "resume", "sweep", "publish", "replay", "note"])
def test_no_program_and_no_folder_of_the_server_is_named(command: str) -> None:
    fields = options_of("Options", command, NOT_IN_BODY).model_fields
    assert not {"project", "python", "env_file", "entrypoint", "graph", "wait"} & set(fields)


def test_a_project_that_nobody_has_confirmed_runs_nothing(
    checkpoint: Checkpoint, operator: Client, fork: str
) -> None:
    Project.objects.update(confirmed_at=None)
    response = sent(operator, fork)
    assert response.status_code == 422 and "Configure the project" in response.json()["error"]
    Location.objects.update(project=None)
    assert sent(operator, fork).status_code == 422
    assert not Job.objects.exists() and Project.objects.get().confirmed_at is None


def test_a_token_of_a_viewer_or_for_another_location_starts_nothing(
    checkpoint: Checkpoint, viewer: Client, fork: str
) -> None:
    olga = with_role("olga", Level.OPERATOR)
    other = Location.objects.create(path="/other", store_kind=Location.StoreKind.JSON)
    assert sent(viewer, fork).status_code == 403
    assert sent(program_of(olga, Level.VIEWER), fork).status_code == 403
    assert sent(program_of(olga, Level.OPERATOR, [other]), fork).status_code == 404
    mixed = with_role("mia", Level.VIEWER)
    mixed.roles.create(level=Level.OPERATOR, location=other)
    assert sent(program_of(mixed, Level.OPERATOR), fork).status_code == 404
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 422),
        ("{", 400),
        ('{"branch": "a", "branch": "b"}', 400),
        ('{"limit": NaN}', 400),
        ("[" * 100_000, 400),
        ("[]", 422),
        ("null", 422),
        ('{"branch": 1}', 422),
        ('{"unknown": "x"}', 422),
        ('{"project": "/tmp"}', 422),
        ('{"python": "/bin/sh"}', 422),
        ('{"wait": true}', 422),
        ('{"branch": "a\\u0000b"}', 422),
        ('{"branch": "\\ud800"}', 422),
        ('{"input": "topic=tea"}', 422),
        ('{"input": ["topic"]}', 422),
        ('{"max_checkpoints": "' + "9" * 400 + '"}', 422),
        ('{"branch": "' + "a" * 600_000 + '"}', 422),
        ('{"limit": ["tokens=-1"]}', 422),
        ('{"at": "2001-01-01"}', 422),
    ],
)
def test_hostile_bodies_are_refused(operator: Client, fork: str, body: str, status: int) -> None:
    response = sent(operator, fork, body)
    assert response.status_code == status, response.content[:300]
    assert response.json()["error"] and not Job.objects.exists()


def test_texts_that_look_like_options_are_texts(operator: Client, fork: str) -> None:
    assert sent(operator, fork, {"branch": "--plan", "input": ["--project=/tmp"]}).status_code == 201
    job = Job.objects.get()
    assert (job.branch, job.request["inputs"]) == ("--plan", {"--project": "/tmp"})


# Answers, notes and cancellations.


@pytest.fixture
def question(checkpoint: Checkpoint) -> Question:
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        status=Job.Status.RUNNING,
        location=checkpoint.location,
        project=checkpoint.location.project,
        checkpoint=checkpoint,
    )
    return Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")


def test_the_first_answer_counts(question: Question, operator: Client, settings: LazySettings) -> None:
    settings.AUDIT = True
    address = reverse("api-answer", args=[question.job_id, 1])
    assert sent(operator, address, {"text": "Green."}).json()["answered"] is True
    assert sent(operator, address, {"text": "Black."}).status_code == 409
    question.refresh_from_db()
    assert question.answer == "Green." and question.answered_by and question.answered_by.username == "olga"
    done = AuditEntry.objects.filter(action="answered").order_by("pk")
    assert [(one.actor, bool(one.token), one.result) for one in done] == [
        ("olga", True, "done"),
        ("olga", True, "not_done"),
    ]
    assert (
        sent(operator, reverse("api-answer", args=[question.job_id, 10**12]), {"text": "a"}).status_code
        == 404
    )


def test_a_job_is_cancelled(question: Question, operator: Client) -> None:
    address = reverse("api-cancel", args=[question.job_id])
    assert sent(operator, address).json()["cancelled"] is True
    assert sent(operator, address).json()["cancelled"] is False
    question.job.refresh_from_db()
    assert question.job.cancel_requested_at


def test_a_note_is_the_persons(checkpoint: Checkpoint, operator: Client) -> None:
    from viewer.models import Annotation

    address = reverse("api-note", args=[checkpoint.pk])
    document = sent(operator, address, {"name": "Tea", "labels": "a,b", "run": True}).json()
    assert (document["name"], document["labels"], document["checkpoint"]) == ("Tea", ["a", "b"], None)
    annotation = Annotation.objects.get()
    assert annotation.changed_by and annotation.changed_by.username == "olga"
    assert sent(operator, address, {"star": True, "no_star": True}).status_code == 422


def test_a_sweep_starts_once(checkpoint: Checkpoint, operator: Client) -> None:
    address = reverse("api-sweep-new", args=[checkpoint.pk])
    body = {"vary": ['topic=["tea", "milk"]'], "branch": "tone"}
    first, again = sent(operator, address, body), sent(operator, address, body)
    assert (first.status_code, again.status_code) == (201, 200), first.content
    assert first.json() == again.json() and len(first.json()["branches"]) == 2
    sweep = Sweep.objects.get()
    assert Job.objects.count() == 2 and sweep.requested_by and sweep.requested_by.username == "olga"
    assert operator.get(f"/api/sweeps/{sweep.pk}").json() == first.json()


def test_each_route_has_an_example_and_answers() -> None:
    schema = api.get_openapi_schema(path_prefix="/api/")
    for address, operations in schema["paths"].items():
        for operation in operations.values():
            assert {"400", "401", "403", "404", "409", "422", "429", "503"} < {
                *map(str, operation["responses"])
            }
            assert operation["description"], address
