"""What a command does for a program with a token: no more than a page does for its person."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.api.conftest import program_of, with_role
from tests.views.forking import CREW, SECRET, create_location, stored
from viewer.models import (
    AuditEntry,
    Checkpoint,
    Collection,
    CollectionItem,
    Job,
    Level,
    Role,
)
from viewer.presentation.export import ALL_FORMATS

LINE = json.dumps({"kind": "checkpoint", "location": "0" * 32, "run": "r", "checkpoint": "c"})


def sent(client: Client, command: str, query: str = "", **body: Any) -> Any:
    """Send a command with these arguments."""
    return client.post(
        f"/api/commands/{command}{query}",
        json.dumps(body),
        content_type="application/json",
        headers={"Idempotency-Key": str(uuid4())},
    )


@pytest.fixture
def other(tmp_path: Path, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint of another team's location."""
    (folder := tmp_path / "other").mkdir()
    return stored(create_location(folder), CREW)


@pytest.fixture
def program(checkpoint: Checkpoint) -> Client:
    """Return a program that may run at the location of the checkpoint."""
    return program_of(with_role("olga", Level.OPERATOR), Level.OPERATOR, [checkpoint.location])


def test_a_collection_with_items_of_others_is_not_deleted(
    checkpoint: Checkpoint, other: Checkpoint, program: Client
) -> None:
    everywhere = program_of(with_role("ada", Level.ADMIN))
    added = sent(everywhere, "collection", name="teas", add=[checkpoint.target, other.target])
    assert added.json() == {"added": [1, 2], "present": 0}
    assert len(sent(program, "collection", name="teas").json()["items"]) == 1
    assert sent(program, "collection", name="teas", delete=True).status_code == 403
    assert sent(program, "collection", name="teas", remove="2").status_code == 422
    assert CollectionItem.objects.count() == 2
    assert sent(everywhere, "collection", name="teas", delete=True).status_code == 200
    assert not Collection.objects.exists()


def test_a_program_of_one_location_makes_a_collection(checkpoint: Checkpoint, program: Client) -> None:
    for added in (1, 0):
        found = sent(program, "collection", name="teas", add=[checkpoint.target])
        assert found.status_code == 200 and len(found.json()["added"]) == added, found.content
    assert sent(program, "collection", name="teas", **{"import": LINE}).json()["added"] == 1
    assert sent(program, "collection", name="teas", **{"import": LINE}).json()["present"] == 1
    assert (Collection.objects.count(), CollectionItem.objects.count()) == (1, 2)


def test_a_role_at_one_location_changes_no_other_one(checkpoint: Checkpoint, other: Checkpoint) -> None:
    olga = with_role("olga", Level.OPERATOR, checkpoint.location)
    Role.objects.create(user=olga, level=Level.VIEWER, location=other.location)
    program = program_of(olga, Level.OPERATOR)
    target = str(other.pk)
    assert sent(program, "diff", a=str(checkpoint.pk), b=target).status_code == 200
    for plan in (False, True):
        assert sent(program, "fork", checkpoint=target, plan=plan).status_code == 422
    assert sent(program, "note", checkpoint=target, star=True).status_code == 422
    assert sent(program, "comments", checkpoint=target, other=str(checkpoint.pk), add="x").status_code == 422
    found = sent(program, "bulk", what="fork", checkpoints=[str(checkpoint.pk), target]).json()
    assert [run["status"] for run in found["runs"]] == ["queued", "refused"]
    assert {job.location_id for job in Job.objects.all()} == {checkpoint.location_id}


def refuse(request: Any, *_more: Any) -> Any:
    raise AssertionError(request)


def test_reading_waits_for_no_disk_and_no_import(
    checkpoint: Checkpoint, program: Client, settings: LazySettings
) -> None:
    settings.HOST = "tests.api.test_served_commands.refuse"
    assert sent(program, "list", location=checkpoint.location.path).status_code == 200
    assert sent(program, "info", checkpoint=checkpoint.target).status_code == 200
    assert sent(program, "search", words=["research"]).status_code == 200


def test_a_long_argument_costs_few_queries(checkpoint: Checkpoint, program: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert sent(program, "info", checkpoint="#" * 4_000).status_code == 422
        names = [f"{checkpoint.location.path}#{number}" for number in range(1_001)]
        assert "1000" in sent(program, "collection", name="teas", add=names).json()["error"].replace(",", "")
    assert len(queries) < 150


def test_a_file_is_sent_once_and_not_without_end(
    checkpoint: Checkpoint, program: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sent(program, "export", checkpoint=checkpoint.target, format="markdown").json()
    for reply in ("json", "lines"):
        found = sent(
            program, "export", checkpoint=checkpoint.target, format="markdown", query=f"?reply={reply}"
        )
        assert found.json()["file"] == whole["text"] and found.content.count(b"## Checkpoints") == 1
    monkeypatch.setattr("viewer.web.api.starting.MAX_ANSWER", 100)
    for reply in ("document", "json", "lines"):
        found = sent(program, "export", checkpoint=checkpoint.target, query=f"?reply={reply}")
        assert found.status_code == 422 and "too long" in found.json()["error"]


def test_no_answer_holds_a_secret(checkpoint: Checkpoint, program: Client) -> None:
    checkpoint = stored(checkpoint.location, {**CREW, "id": "33333333-3333-4333-8333-333333333333"})
    target = checkpoint.target
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("list", {"location": checkpoint.location.path}),
        ("info", {"checkpoint": target, "graph": "text"}),
        ("call", {"checkpoint": target}),
        ("search", {"words": ["canary"]}),
        ("search", {"words": [SECRET]}),
        ("diff", {"a": target, "b": target}),
        ("collection", {"name": "teas", "add": [target], "note": SECRET}),
        ("collection", {"name": "teas", "export": "-"}),
        ("note", {"checkpoint": target, "note": SECRET}),
        ("comments", {"checkpoint": target, "add": SECRET}),
        ("fork", {"checkpoint": target, "plan": True}),
        ("fork", {"checkpoint": target, "accept_hidden": True, "input": [f"topic={SECRET}"]}),
        ("sweep", {"checkpoint": target, "accept_hidden": True, "vary": [f'topic=["{SECRET}", "tea"]']}),
        *(("export", {"checkpoint": target, "format": name}) for name in ALL_FORMATS),
    ]
    for command, body in bodies:
        for reply in ("document", "lines"):
            found = sent(program, command, query=f"?reply={reply}", **body)
            assert SECRET not in found.content.decode(), (command, body)
            assert found.status_code in (200, 201, 409) or command in ("export", "search"), found.content
    for job in Job.objects.all():
        for address in ("", "/outcome", "/events"):
            assert SECRET not in program.get(f"/api/jobs/{job.pk}{address}").content.decode()
    assert Job.objects.exists()


def test_a_dash_is_no_argument(checkpoint: Checkpoint, program: Client) -> None:
    for body in ({"a": checkpoint.target, "b": "--"}, {"a": "--", "b": "--"}):
        assert sent(program, "diff", **body).status_code == 422
    assert sent(program, "info", checkpoint="--").status_code == 422


def test_the_opened_row_is_recorded(checkpoint: Checkpoint, program: Client, settings: LazySettings) -> None:
    settings.AUDIT = True
    path, target = checkpoint.location.path, checkpoint.target
    location = ("opened", "location", str(checkpoint.location.uid), "done")
    row = ("opened", "checkpoint", str(checkpoint.pk), "done")
    for command, entry, body in (
        ("list", location, {"location": path}),
        ("note", row, {"checkpoint": target}),
        ("comments", row, {"checkpoint": str(checkpoint.pk)}),
        ("fork", row, {"checkpoint": target, "plan": True}),
        ("note", ("changed", "run", "", "not_done"), {"checkpoint": f"{path}#x", "star": True}),
        ("fork", ("started", "job", "", "not_done"), {"checkpoint": target, "branch": "main"}),
    ):
        last = AuditEntry.objects.count()
        sent(program, command, **body)
        found = AuditEntry.objects.order_by("pk").values_list("action", "kind", "key", "result")[last:]
        assert list(found) == [entry], command
