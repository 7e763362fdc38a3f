"""Secrets in threads are redacted before they leave the reader process, wherever they are."""

from pathlib import Path

import ormsgpack
import pytest
from django.test import Client

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.databases import Database, extension, packed
from viewer.engines.langgraph.decoding import Decoder
from viewer.host.locations.importing import import_location, redact_stored
from viewer.host.locations.indexing import import_run
from viewer.models import Checkpoint, Location, Project, Run
from viewer.redaction import MARKER
from viewer.stores.protocol import ReadLimits

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
PASSWORD = "correct-horse-battery"
# No rule recognises it as a secret.
VALUE = "blue whale (north)"


@pytest.mark.django_db
def test_no_page_row_or_download_holds_a_key(tmp_path: Path, reader: Client) -> None:
    database = Database(tmp_path / "threads.db")
    values = {
        "api_key": KEY,
        "note": f"call it with {KEY}",
        "credentials": extension(0, "pydantic.types", "SecretStr", PASSWORD),
        KEY: "a channel",
    }
    metadata = f'{{"source": "loop", "step": 0, "parents": {{}}, "token": "{KEY}"}}'.encode()
    database.add(0, packed(values), thread_id=f"thread {KEY}", metadata=metadata)
    at = {"thread_id": f"thread {KEY}", "task_id": f"task {KEY}", "task_path": f"~__pregel_pull, {KEY}"}
    database.write(0, 0, "value", ormsgpack.packb({"password": PASSWORD, "key": KEY}), **at)
    database.write(0, -3, "__interrupt__", ormsgpack.packb(f"Use {KEY}?"), **{**at, "task_id": "other"})
    location = imported_location(database.path)
    (listed,) = location.runs.all()
    run = opened(location, listed.key)
    (row,) = run.checkpoints.all()
    shown = reader.get(location.get_absolute_url()).content
    for tab in ("state", "messages", "writes", "next", "subgraphs", "metadata", "raw"):
        page = reader.get(run.get_absolute_url(), {"at": row.checkpoint_id, "tab": tab})
        assert page.status_code == 200
        shown += page.content
    download = reader.get(f"/checkpoints/{row.pk}/raw/")
    assert download.status_code == 200 and b'"channel_values"' in download.content
    stored = repr([*Run.objects.values(), *Checkpoint.objects.values()])
    everything = (shown + download.content).decode() + stored
    assert KEY not in everything and PASSWORD not in everything
    assert "[redacted]" in everything


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("pydantic.types", "Secret[date]", "2026-01-02"),
        ("app.types", "ApiKey", PASSWORD),
        ("app.types", "DatabasePassword", "hunter"),
        ("app.types", "MySecretStr", PASSWORD),
        ("app.types", "SecretToken", PASSWORD.encode()),
        # Only its value shows that it is no member of an enumeration.
        ("app.types", "Login", "k4n@rieVogel"),
    ],
)
def test_whatever_holds_a_secret_is_hidden(module: str, name: str, value: str | bytes) -> None:
    """The serializer stores the value of every class that has a method ``get_secret_value``."""
    decoded = Decoder(ReadLimits()).value("msgpack", ormsgpack.packb(extension(0, module, name, value)))
    assert decoded == {"__type__": f"{module}.{name}", "fields": MARKER}


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("app.types", "Status", "in_progress"),
        ("app.types", "Status", "Needs review (urgent)"),
        ("app.types", "Model", "gpt-4o-2024-08-06"),
        ("app.types", "Token", "END"),
        ("app.types", "Level", 1234567),
        ("uuid", "UUID", "1ec9414c232a6b00b3c89e6bdeced846"),
        ("decimal", "Decimal", "12345678.90E+3"),
        ("builtins", "set", ["k4n@rieVogel"]),
    ],
)
def test_other_objects_with_one_argument_are_shown(module: str, name: str, value: object) -> None:
    decoded = Decoder(ReadLimits()).value("msgpack", ormsgpack.packb(extension(0, module, name, value)))
    assert decoded == {"__type__": f"{module}.{name}", "fields": value}


@pytest.mark.django_db
def test_a_secret_that_becomes_known_later_disappears_from_the_index(tmp_path: Path, reader: Client) -> None:
    database = Database(tmp_path / "threads.db")
    for number in range(2):
        database.add(number, packed({"value": VALUE}), thread_id=VALUE)
    database.write(0, 0, "value", b"\x01", thread_id=VALUE, task_path=f"~__pregel_pull, {VALUE}")
    location = imported_location(database.path)
    opened(location, VALUE)
    (tmp_path / ".env").write_text(f"SERVICE_TOKEN='{VALUE}'\n")
    location.project = Project.objects.create(
        folder=str(tmp_path), interpreter="/bin/true", environment_file=str(tmp_path / ".env")
    )
    location.save()
    import_location(location)
    run = opened(location, location.runs.get().key)
    assert run.checkpoint_count == 2
    pages = b"".join(
        reader.get(run.get_absolute_url(), {"at": row.checkpoint_id, "tab": tab}).content
        for row in run.checkpoints.all()
        for tab in ("state", "writes", "metadata")
    )
    stored = repr([*Run.objects.values(), *Checkpoint.objects.values()])
    assert VALUE not in pages.decode() + stored and "[redacted]" in stored


@pytest.mark.django_db
def test_every_run_remains_when_another_process_learns_of_secrets(tmp_path: Path) -> None:
    database = Database(tmp_path / "threads.db")
    for thread in ("first", "second"):
        database.add(0, packed({"value": VALUE}), thread_id=thread)
    location = imported_location(database.path)
    runs = {run.key: run for run in location.runs.all()}
    elsewhere = Location.objects.get(pk=location.pk)
    (tmp_path / ".env").write_text(f"SERVICE_TOKEN='{VALUE}'\n")
    elsewhere.project = Project.objects.create(
        folder=str(tmp_path), interpreter="/bin/true", environment_file=str(tmp_path / ".env")
    )
    elsewhere.save()
    redact_stored(elsewhere)
    import_run(runs["second"])
    import_location(location)
    assert {run.key: run.pk for run in location.runs.all()} == {key: run.pk for key, run in runs.items()}
    import_run(runs["first"])
    assert [run.checkpoints.count() for run in runs.values()] == [1, 1]
