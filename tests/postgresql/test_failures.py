"""A PostgreSQL server that cannot be used is one sentence with advice, and nothing is changed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.postgresql.conftest import Installation

NewInstallation = Callable[..., Installation]


def database_check(installation: Installation, **variables: str) -> tuple[str, str]:
    """What ``doctor`` says about the database."""
    ended = installation.manage("checkpoints", "doctor", "--json", **variables)
    found: list[dict[str, Any]] = json.loads(ended.stdout)["findings"]
    return next((one["state"], one["text"]) for one in found if one["check"] == "database")


def refusal(installation: Installation, **variables: str) -> str:
    """The one line of a command that is refused."""
    ended = installation.manage("checkpoints", "answer", **variables)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended
    return ended.stderr.splitlines()[-1]


def test_an_intact_database_passes(installation: Installation) -> None:
    state, text = database_check(installation)
    assert state == "ok" and text.endswith("UTF8.") and "PostgreSQL" in text


@pytest.mark.parametrize("address", ["/rows?host=/nowhere", "127.0.0.1:1/rows"])
def test_a_server_that_is_away_is_named(installation: Installation, address: str) -> None:
    url = f"postgresql://lg@{address}"
    assert "cannot be reached: rows on" in refusal(installation, DATABASE_URL=url)
    assert "cannot be reached: rows on" in database_check(installation, DATABASE_URL=url)[1]


def test_a_missing_database_and_a_wrong_password_are_named(installation: Installation) -> None:
    missing = installation.url.replace(installation.name, "nothing")
    assert "There is no PostgreSQL database" in refusal(installation, DATABASE_URL=missing)
    wrong = installation.url.replace("//lg@", "//forkline_reader:canary-word@")
    said = refusal(installation, DATABASE_URL=wrong)
    assert "refuses the user or password" in said and "canary" not in said


def test_a_server_without_connections_is_named(installation: Installation) -> None:
    installation.alter(f"ALTER DATABASE {installation.name} CONNECTION LIMIT 0")
    url = installation.url.replace("//lg@", "//forkline_writer:reader-word-5b1f9c@")
    assert "no connection left" in refusal(installation, DATABASE_URL=url)


def test_a_read_only_database_is_named(installation: Installation) -> None:
    installation.alter(f"ALTER DATABASE {installation.name} SET default_transaction_read_only = on")
    assert database_check(installation)[0] == "error"
    said = installation.manage("login_link", "somebody")
    assert "read-only" in said.stderr and said.returncode == 1


def test_another_programs_tables_are_refused(new_installation: NewInstallation) -> None:
    installation = new_installation()
    with installation.server.connected(installation.name) as connection:
        connection.execute("CREATE TABLE orders (id int)")
    assert "tables of another program" in refusal(installation)
    with installation.server.connected(installation.name) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found == (1,)


def test_another_encoding_is_refused(new_installation: NewInstallation) -> None:
    installation = new_installation("TEMPLATE template0 ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C'")
    assert "Create it with the encoding UTF8" in refusal(installation)
    assert database_check(installation)[0] == "error"


def test_a_later_version_is_refused(installation: Installation) -> None:
    with installation.server.connected(installation.name) as connection:
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('viewer', '9999_x', now())"
        )
        connection.execute("COMMENT ON TABLE django_migrations IS 'Forkline 9001002'")
    assert "created by Forkline 9.1.2" in refusal(installation)


def test_copies_are_made_with_pg_dump(installation: Installation) -> None:
    ended = installation.manage("checkpoints", "backup", str(installation.data_folder / "copy"))
    assert ended.returncode == 1 and "pg_dump" in ended.stderr
    ended = installation.manage("checkpoints", "restore", "/nowhere")
    assert ended.returncode == 1 and "pg_dump" in ended.stderr


@pytest.mark.parametrize("value", ["postgres", "host=", "postgresql://canary:canary@host/"])
def test_an_invalid_address_is_not_quoted(installation: Installation, value: str) -> None:
    ended = installation.manage("checkpoints", "answer", DATABASE_URL=value)
    assert ended.returncode == 1 and "DATABASE_URL must be" in ended.stderr and "canary" not in ended.stderr
