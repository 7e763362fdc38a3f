"""Errors of a server are messages without the password, and the password is stored and shown nowhere."""

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from tests.environments import environment_with
from tests.file_bytes import bytes_of
from tests.langgraph.conftest import opened
from tests.langgraph.postgresql.server import PASSWORD, READER, Server
from viewer.host.locations.adding import write_target_at
from viewer.host.locations.importing import import_location
from viewer.host_requests import NotReadable, UnknownLocation
from viewer.messages.translation import translate
from viewer.models import Job, Location, Project
from viewer.records.bodies import body_of, stored_contents

Added = Callable[[], Location]
ROOT = Path(__file__).resolve().parents[3]
WITH_PASSWORD = f"postgresql://forkline:{PASSWORD}@127.0.0.1:1/agents"


def error_of(location: Location) -> str:
    """Return why an import cannot read the location. What was listed before stays, and it is tried again."""
    before = location.runs.count()
    summary = import_location(location)
    assert summary.read_error and not summary.refused_fingerprint
    assert location.runs.count() == before
    return translate(summary.read_error)


def test_a_statement_that_takes_too_long_is_cancelled(
    added: Added, server: Server, database: str, settings: Settings
) -> None:
    location = added()
    row = opened(location, "fan-failed").checkpoints.select_related("location").latest("row")
    settings.POSTGRESQL_STATEMENT_SECONDS = 1
    with server.connected(database) as connection:
        connection.execute("INSERT INTO checkpoint_migrations VALUES (99)")
    with server.connected(database) as connection, connection.transaction():
        # Every read of the table waits for this lock.
        connection.execute("LOCK TABLE checkpoints")
        assert error_of(location) == "A statement took more than 1 s. Try again."
        with pytest.raises(NotReadable, match="more than 1 s"):
            body_of(row)
    assert import_location(location).read_error is None
    assert stored_contents(row).id == row.checkpoint_id


def test_a_wrong_password_is_named_without_quoting_it(added: Added, monkeypatch: pytest.MonkeyPatch) -> None:
    location = added()
    monkeypatch.setenv("PGPASSWORD", wrong := f"{PASSWORD}-wrong")
    message = error_of(location)
    assert "password authentication failed" in message
    assert wrong not in message and "host=" not in message and "dbname" not in message
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert import_location(location).read_error is None


def test_a_server_that_is_down_is_tried_again(
    added: Added, server: Server, database: str, settings: Settings
) -> None:
    location = added()
    settings.POSTGRESQL_LOCATIONS = {"support": f"host=127.0.0.1 port=1 dbname={database} user={READER}"}
    assert "could not be reached" in error_of(location)
    settings.POSTGRESQL_LOCATIONS = {"support": server.connection(database)}
    assert import_location(location).read_error is None


def test_a_role_without_select_and_a_database_without_tables_are_explained(
    added: Added, server: Server, database: str, settings: Settings
) -> None:
    location = added()
    with server.connected(database) as connection:
        connection.execute(f"REVOKE SELECT ON checkpoints FROM {READER}")
    assert "grant it USAGE on their schema and SELECT" in error_of(location)
    settings.POSTGRESQL_LOCATIONS = {"support": server.connection("postgres")}
    assert "has no table “checkpoints”" in error_of(location)
    settings.POSTGRESQL_LOCATIONS = {}
    assert "POSTGRESQL_LOCATIONS has no connection with this name" in error_of(location)


def test_a_view_called_checkpoints_is_not_read(added: Added, server: Server, database: str) -> None:
    with server.connected(database) as connection:
        connection.execute("ALTER TABLE checkpoints RENAME TO hidden")
        connection.execute("CREATE VIEW checkpoints AS SELECT * FROM hidden")
    with pytest.raises(UnknownLocation, match="not a plain table"):
        added()


@pytest.mark.parametrize("way", ["service", "passfile"])
def test_the_password_may_be_in_a_file_of_libpq(
    added: Added,
    server: Server,
    database: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    way: str,
) -> None:
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / way
    if way == "service":
        parts = server.connection(database).split()
        file.write_text("\n".join(["[support]", *parts, f"password={PASSWORD}", ""]))
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        settings.POSTGRESQL_LOCATIONS = {"support": "service=support"}
    else:
        file.write_text(f"*:*:*:{READER}:{PASSWORD}\n")
        settings.POSTGRESQL_LOCATIONS = {"support": f"{server.connection(database)} passfile={file}"}
    file.chmod(0o600)
    assert added().runs.count() == 9


def test_the_password_and_the_connection_are_nowhere(
    added: Added,
    runner: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    server: Server,
    settings: Settings,
) -> None:
    caplog.set_level(logging.DEBUG)
    location = added()
    run = opened(location, "appr-waiting")
    monkeypatch.setenv("PGPASSWORD", f"{PASSWORD}-wrong")
    runner.post(f"{location.get_absolute_url()}refresh/")
    pages = [
        runner.get(address).content.decode()
        for address in ("/", location.get_absolute_url(), run.get_absolute_url())
    ]
    assert "postgresql:support" in pages[0] and "PostgreSQL database" in pages[1]
    with pytest.raises(SystemExit):
        call_command("checkpoints", "list", "postgresql:support")
    rows = [str(list(model._default_manager.values())) for model in apps.get_models()]
    files = bytes_of(path for path in Path(settings.DATA_DIR).rglob("*") if path.is_file())
    written = "".join([*pages, *rows, caplog.text, *capfd.readouterr()]).encode() + files
    assert b"postgresql:support" in written and b"authentication failed" in written
    assert PASSWORD.encode() not in written and str(server.folder).encode() not in written


def test_the_form_offers_the_databases_of_the_settings(runner: Client, database: str) -> None:
    assert "<option>postgresql:support</option>" in runner.get("/").content.decode()
    answer = runner.post("/locations/add/", {"path": "postgresql:support"})
    assert answer.status_code == 302
    assert "<option>" not in runner.get("/").content.decode()


def test_a_typed_uri_is_refused_and_not_shown_again(runner: Client) -> None:
    page = runner.post("/locations/add/", {"path": WITH_PASSWORD}, follow=True)
    assert "postgresql:NAME" in page.content.decode() and PASSWORD not in page.content.decode()
    assert not any(PASSWORD in str(one.get_decoded()) for one in Session.objects.all())
    for command in (["checkpoints", "list"], ["import_checkpoints"], ["checkpoints", "info"]):
        with pytest.raises(CommandError) as raised:
            call_command(*command, WITH_PASSWORD)
        assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"support={WITH_PASSWORD}", "the connection of support has a password"),
        (f"support=host=db password={PASSWORD}", "the connection of support has a password"),
        (f"support=host=db sslpassword={PASSWORD}", "the connection of support has a password"),
        (f"support=host=db {PASSWORD} x", "is not a connection string or URI as libpq reads it"),
        ("support", "must hold NAME=CONNECTION"),
        ("a=service=a; a=service=b", "must hold NAME=CONNECTION"),
    ],
)
def test_a_setting_with_a_password_is_refused_without_quoting_it(value: str, reason: str) -> None:
    environment = environment_with(POSTGRESQL_LOCATIONS=value)
    command = [sys.executable, "manage.py", "checkpoints", "list", "/nowhere"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and reason in ended.stderr and PASSWORD not in ended.stderr


def test_nothing_runs_from_a_database_without_a_project(added: Added, runner: Client, tmp_path: Path) -> None:
    location = added()
    last = opened(location, "fan-failed").checkpoints.latest("row")
    assert runner.get(location.get_absolute_url() + "project/").status_code == 200
    assert runner.post(f"/checkpoints/{last.pk}/resume/").status_code != 302
    with pytest.raises(UnknownLocation):
        write_target_at("postgresql:support", Project(folder=str(tmp_path)))
    assert not Job.objects.exists() and not Project.objects.exists()
