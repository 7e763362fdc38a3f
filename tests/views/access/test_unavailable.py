"""While the data folder is missing or replaced, every page says so and no socket opens."""

from pathlib import Path

import pytest
from channels.testing import WebsocketCommunicator
from django.db import DatabaseError, connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from checkpoint_site.asgi import application
from viewer.data_folder import permissions
from viewer.models import Location
from viewer.web.views import locations


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Replace the data folder by another one."""
    database = permissions.mark_of(Path(connection.settings_dict["NAME"]))
    monkeypatch.setattr(permissions, "_opened", permissions.Opened("1:1", database))


def test_pages_report_a_replaced_data_folder(runner: Client, replaced: None) -> None:
    for address in (reverse("locations"), reverse("login"), reverse("jobs")):
        answer = runner.get(address)
        assert (answer.status_code, answer["Retry-After"]) == (503, "10")
        assert "was replaced" in answer.content.decode() and "Traceback" not in answer.content.decode()
        assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert runner.get("/healthz").status_code == 503


def test_pages_work_again_when_the_data_folder_is_back(
    runner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(permissions, "_opened", permissions.Opened("1:1", "1:1"))
        assert runner.get(reverse("locations")).status_code == 503
    assert runner.get(reverse("locations")).status_code == 200


@pytest.mark.sqlite
@pytest.mark.parametrize(("folder", "text"), [("gone", "is missing"), ("empty", "The database in")])
def test_pages_name_the_missing_folder_or_file(
    folder: str, text: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    settings.DATA_DIR = tmp_path / folder
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / folder / "forkline.sqlite3"))
    monkeypatch.setattr(permissions, "_opened", permissions.Opened("1:1", "1:1"))
    assert text in permissions.what_changed() and str(tmp_path / folder) in permissions.what_changed()
    monkeypatch.setattr(permissions, "_opened", None)
    assert permissions.what_changed() == ""
    assert "There is no database in" in permissions.problem_while_served()


@pytest.mark.parametrize("name", ["data", "a|b"])
def test_programs_of_up_refuse_a_replaced_folder(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings.DATA_DIR = tmp_path / name
    settings.DATA_DIR.mkdir()
    monkeypatch.setattr(permissions, "_opened", None)
    monkeypatch.setenv(permissions.SERVED, f"{settings.DATA_DIR}|1:1|1:1")
    assert "was replaced" in permissions.what_changed()
    monkeypatch.setenv(permissions.SERVED, "/some/other/folder|1:1|1:1")
    assert permissions.what_changed() == ""


async def test_no_socket_opens(replaced: None) -> None:
    path = "/ws/jobs/6f8c7b7e-0000-4000-8000-000000000000/"
    headers = [(b"host", b"127.0.0.1:8000"), (b"origin", b"http://127.0.0.1:8000")]
    socket = WebsocketCommunicator(application, path, headers=headers)
    assert await socket.connect() == (False, 1013)


@pytest.mark.parametrize("code", [5, 11, 13])
def test_a_database_error_shows_a_message(runner: Client, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*arguments: object) -> None:
        cause = Exception("SQLite's own words")
        cause.sqlite_errorcode = code  # type: ignore[attr-defined]
        raise DatabaseError("SQLite's own words") from cause

    monkeypatch.setattr(locations, "adding_context", fail)
    runner.raise_request_exception = False
    answer = runner.get(reverse("locations"))
    assert answer.status_code == 503 and "SQLite" not in answer.content.decode()
    assert "Forkline cannot access its data" in answer.content.decode()


def test_the_health_check_is_public_and_reports_only_the_status(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content, answer.cookies) == (200, b"ok\n", {})
    assert client.head("/healthz").status_code == 200 and client.post("/healthz").status_code == 405
    assert client.get("/healthz", headers={"Host": "elsewhere.example"}).status_code == 400

    def fail(*arguments: object) -> None:
        raise DatabaseError("disk I/O error at /secret/path")

    monkeypatch.setattr(Location.objects, "exists", fail, raising=False)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (503, b"unavailable\n")
