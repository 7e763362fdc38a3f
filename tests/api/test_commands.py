"""Commands over HTTP: each is served or refused, needs the right of what it does, and opens no file."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from tests.api.conftest import program_of, with_role
from tests.views.access.test_roles import HIDDEN
from tests.views.access.test_urls import rows
from tests.views.forking import CREW, create_location, stored
from viewer.cli import NEW_FILE, SUBCOMMANDS
from viewer.cli.arguments import OF_MACHINE, arguments_of, parser_of
from viewer.cli.remote import NEW_FILES, ON_MACHINE, SENT_ONCE
from viewer.models import AuditEntry, Checkpoint, Job, Level, Location, Project, Sweep
from viewer.web.api.examples import COMMANDS
from viewer.web.api.starting import SERVED


def sent(client: Client, command: str, body: Any = None, key: str = "once", query: str = "") -> Any:
    """Send a command with these arguments."""
    return client.post(
        f"/api/commands/{command}{query}",
        json.dumps(body or {}),
        content_type="application/json",
        headers={"Idempotency-Key": key},
    )


@pytest.fixture
def admin(location: Location) -> Client:
    return program_of(with_role("ada", Level.ADMIN), Level.ADMIN)


def test_each_command_is_served_or_needs_the_machine() -> None:
    assert not SERVED.keys() & ON_MACHINE
    assert SERVED.keys() | ON_MACHINE == set(SUBCOMMANDS)
    assert SERVED.keys() == COMMANDS.keys()
    for name, served in SERVED.items():
        arguments = arguments_of(name)
        assert served.by <= arguments.keys() and served.without <= arguments.keys(), name
        # One that changes something without a key must not be sent again.
        starts = SUBCOMMANDS[name].outcome is not None
        assert (served.changes is not None and not starts) == (name in SENT_ONCE or name == "shares"), name
        files = [action.dest for action in parser_of(name)._actions if action.type is NEW_FILE]
        assert files == [NEW_FILES[one] for one in NEW_FILES if one == name], name


def test_no_argument_names_a_file_or_program() -> None:
    kinds = {kind.kind for kind in OF_MACHINE}
    assert kinds == {"database", "collector", "file", "folder", "program"}
    for name in SERVED:
        for action in arguments_of(name).values():
            assert getattr(action.type, "kind", "") not in kinds, (name, action.dest)


CHANGES: dict[str, dict[str, Any]] = {
    "note": {"name": "tea"},
    "comments": {"add": "Greener?"},
    "collection": {"name": "teas", "add": ["TARGET"]},
    "answer": {"job": "JOB", "text": "yes"},
    "cancel": {"job": "JOB"},
    "prune": {"days": "0", "confirm": "x"},
    "remove": {},
    "shares": {"revoke": "1"},
    "hosts": {"drain": "none"},
    **{name: {} for name in ("fork", "resume", "publish", "score", "run", "sweep", "bulk", "replay")},
}
BODIES: dict[str, dict[str, Any]] = {
    "score": {"function": "crew:build"},
    "bulk": {"what": "fork", "checkpoints": ["TARGET"]},
    "replay": {"call": "0123456789ab"},
    "sweep": {"vary": ['topic=["tea", "milk"]']},
    "diff": {"a": "TARGET", "b": "TARGET"},
}


def body_of(command: str, target: str, path: str, **more: Any) -> dict[str, Any]:
    """Return a body with the required arguments."""
    text = json.dumps({**BODIES.get(command, {}), **more}).replace("TARGET", target)
    body = json.loads(text)
    for name, action in arguments_of(command).items():
        if not action.option_strings and action.nargs is None:
            body.setdefault(name, path if name == "location" else target)
    return dict(body)


def test_a_change_needs_its_right(checkpoint: Checkpoint) -> None:
    ada = with_role("ada", Level.ADMIN)
    before = rows()
    assert CHANGES.keys() == {name for name, served in SERVED.items() if served.changes}
    for level in (Level.VIEWER, Level.OPERATOR):
        client = program_of(ada, level)
        for name, given in CHANGES.items():
            right = SERVED[name].changes
            assert right is not None
            if level < right.level:
                body = body_of(name, checkpoint.target, checkpoint.location.path, **given)
                assert sent(client, name, body).status_code == 403, (name, level)
    assert rows() == before


def test_another_teams_rows_do_not_exist(checkpoint: Checkpoint, tmp_path: Path) -> None:
    other = stored(create_location(tmp_path / HIDDEN), CREW)
    lea = with_role("lea", Level.ADMIN, checkpoint.location)
    whole = with_role("ada", Level.ADMIN)
    before = rows()
    for client in (program_of(lea, Level.ADMIN), program_of(whole, Level.ADMIN, [checkpoint.location])):
        for name in SERVED:
            for target in (other.target, str(other.pk), f"{other.location.uid}#{other.checkpoint_id}"):
                for given in ({}, CHANGES.get(name, {}), {"plan": True} if name == "fork" else {}):
                    path = target.partition("#")[0] if "#" in target else other.location.path
                    found = sent(client, name, body_of(name, target, path, **given))
                    text = found.content.decode()
                    # The longer one first: a key may be a digit of the path.
                    for given_text in sorted((target, path), key=len, reverse=True):
                        text = text.replace(given_text, "")
                    assert HIDDEN not in text and other.checkpoint_id not in text, (name, text)
                    assert found.status_code != 201, name
    assert rows() == before and not Job.objects.exists()


def test_files_of_the_server_stay_closed(admin: Client, checkpoint: Checkpoint, tmp_path: Path) -> None:
    (secret := tmp_path / "secret.jsonl").write_text('{"stolen": true}')
    inside = next(Path(checkpoint.location.path).rglob("*.json"))
    (new := tmp_path / "new").mkdir()
    for name, body in (
        ("list", {"location": str(tmp_path)}),
        ("list", {"location": f"file://{tmp_path}"}),
        ("info", {"checkpoint": str(inside)}),
        ("info", {"checkpoint": f"file://{inside}"}),
        ("info", {"checkpoint": f"{new}#x"}),
        ("run", {"location": str(new)}),
        ("run", {"location": f"file://{new}"}),
        ("remove", {"location": f"{checkpoint.location.path}/../cp"}),
        ("prune", {"location": str(tmp_path), "days": "0"}),
        ("collection", {"name": "x", "import": str(secret)}),
        ("export", {"checkpoint": checkpoint.target, "output": str(new / "x")}),
        ("collection", {"name": "x", "export": str(new / "x")}),
        ("fork", {"checkpoint": checkpoint.target, "project": str(new)}),
        ("export", {"checkpoint": checkpoint.target, "to": "http://127.0.0.1:1"}),
    ):
        found = sent(admin, name, body)
        assert found.status_code == 422 and "stolen" not in found.content.decode(), (name, body)
    assert sent(admin, "note", {"checkpoint": checkpoint.target, "note": "-"}).json()["note"] == "-"
    assert Location.objects.count() == 1 and not list(new.iterdir()) and not Job.objects.exists()


def test_a_new_run_starts_what_a_person_has_confirmed(admin: Client, checkpoint: Checkpoint) -> None:
    body = {"location": checkpoint.location.path, "input": ["topic=tea"], "kind": "crew"}
    for entry_point in ("os:system", "crew:other"):
        found = sent(admin, "run", {**body, "entrypoint": entry_point}, key=entry_point)
        assert found.status_code == 422 and "no entry point" in found.json()["error"], found.json()
    Project.objects.update(confirmed_at=None)
    assert sent(admin, "run", {**body, "entrypoint": "crew:build"}).status_code == 422
    assert not Job.objects.exists()


def test_a_start_has_one_key(admin: Client, checkpoint: Checkpoint) -> None:
    body = {"checkpoint": checkpoint.target, "input": ["topic=tea"]}
    first, again = sent(admin, "fork", body), sent(admin, "fork", body)
    assert (first.status_code, again.status_code) == (201, 200), first.content
    assert first.json()["job"] == again.json()["job"] and first.json()["plan"] == again.json()["plan"]
    assert sent(admin, "fork", {**body, "branch": "x"}).status_code == 422
    assert sent(admin, "resume", body).status_code == 422
    lines = sent(admin, "fork", body, query="?reply=lines").json()
    assert lines["status"] == 0 and lines["unfinished"] == [first.json()["job"]] and lines["lines"]
    group = {"what": "fork", "checkpoints": [checkpoint.target]}
    assert (sent(admin, "bulk", group, "b").status_code, sent(admin, "bulk", group, "b").status_code) == (
        201,
        200,
    )
    sweep = {"checkpoint": checkpoint.target, "vary": ['topic=["tea", "milk"]']}
    first, again = sent(admin, "sweep", sweep, "c"), sent(admin, "sweep", sweep, "c")
    assert first.json() == again.json() and len(first.json()["branches"]) == 2
    assert (Job.objects.count(), Sweep.objects.count()) == (4, 2)
    owners = {job.requested_by and job.requested_by.username for job in Job.objects.all()}
    assert owners == {"ada"}
    assert admin.post("/api/commands/fork", body, content_type="application/json").status_code == 422


def test_what_is_done_is_recorded(checkpoint: Checkpoint, settings: LazySettings) -> None:
    settings.AUDIT = True
    ada = with_role("ada", Level.ADMIN)
    admin, viewer = program_of(ada, Level.ADMIN), program_of(ada, Level.VIEWER)
    target, path = checkpoint.target, checkpoint.location.path

    def entries(client: Client, name: str, **given: Any) -> list[tuple[str, str, str]]:
        last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        sent(client, name, body_of(name, target, path, **given), name)
        found = AuditEntry.objects.filter(pk__gt=last).order_by("pk")
        return list(found.values_list("action", "kind", "result"))

    assert entries(viewer, "info") == [("opened", "checkpoint", "done")]
    assert entries(viewer, "comments") == [("opened", "checkpoint", "done")]
    assert entries(viewer, "comments", add="x") == [("added", "run", "not_done")]
    assert entries(viewer, "list") == [("opened", "location", "done")]
    assert entries(admin, "keys") == [("opened", "location", "done")]
    assert entries(admin, "fork", plan=True) == [("opened", "checkpoint", "done")]
    assert entries(viewer, "fork") == [("started", "job", "not_done")]
    assert ("started", "job", "done") in entries(admin, "fork")
    assert entries(admin, "cancel", job="none") == [("cancelled", "job", "not_done")]


def test_what_a_host_does_not_permit_is_no_failure_of_it(checkpoint: Checkpoint) -> None:
    viewer = program_of(with_role("vera", Level.VIEWER), Level.VIEWER)
    assert sent(viewer, "info", {"checkpoint": checkpoint.target, "graph": "text"}).status_code == 403


def test_too_much_is_refused(admin: Client, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewer.web.api.starting.MAX_ANSWER", 100)
    found = sent(admin, "list", {"location": checkpoint.location.path})
    assert found.status_code == 422 and "too long" in found.json()["error"]


def test_positions_are_not_confused(admin: Client, checkpoint: Checkpoint) -> None:
    assert sent(admin, "answer", {"number": "1"}).status_code == 422
    assert sent(admin, "info", {"checkpoint": "--help"}).status_code == 422
    found = sent(admin, "search", {"words": ["--location=/etc", "--", "-x"]})
    assert (found.status_code, found.json()["count"]) == (200, 0)
