"""All rows move to PostgreSQL and back, with their keys, or none does."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.langgraph.postgresql.server import FORKLINE, Server
from tests.postgresql.conftest import ROOT, Installation
from tests.set_up.contents import Rows, rows_of
from tests.set_up.test_recorded_data_folder import DATABASE, unpacked
from viewer.host.permitted import PERMITTED_FILE

NewInstallation = Callable[..., Installation]
# What is not moved: the words of the index, which each database makes itself, and what each one is.
OWN = ("viewer_searchtext", "django_migrations", "viewer_hostrequest")
FOUND = (
    "from viewer.records.search import search_index; from viewer.records.search_filters import words_in\n"
    "from viewer.models import SearchEntry\n"
    "for query in ('the', 'tea', 'gree', 'tea -green', 'redacted'):\n"
    "    print([pk for pk, _ in search_index().find(words_in(query), SearchEntry.objects.all(), 1000)])"
)
# Rows that PostgreSQL writes differently.
HOSTILE = (
    "from viewer.models import Project, ReaderSettings, Location\n"
    "from django.utils import timezone; from django.contrib.auth.models import User\n"
    "values = [1e22, 0.1, -1, True, None, {'b': 1, 'a': [r'\\u0000', '\\\\']}, 'é\\n\\u2028', 2**80]\n"
    "Project.objects.create(folder='/hostile', interpreter='python', entry_points=values)\n"
    "from viewer.models import AuditEntry\n"
    "AuditEntry.objects.create(\n"
    "    at='2026-11-02T10:00:00.123456Z', actor='é', actor_kind='user',\n"
    "    action='opened', kind='run', key='1',\n"
    ")\n"
    "gone = User.objects.create(username='gone', last_login=timezone.now()); gone.delete()"
)


@pytest.fixture(scope="module")
def filled(rows_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with rows of every kind in SQLite. Others are copies of it."""
    made = Installation(rows_server, "postgres", unpacked(tmp_path_factory.mktemp("filled") / "data"))
    assert made.manage("checkpoints", "answer", DATABASE_URL="").returncode == 0
    made.python(HOSTILE, DATABASE_URL="")
    return made.data_folder


@pytest.fixture
def installation(filled: Path, new_installation: NewInstallation) -> Installation:
    """Rows of every kind in SQLite, and a database with all tables, and no rows."""
    made = new_installation(f"TEMPLATE {FORKLINE}")
    shutil.copytree(filled, made.data_folder)
    return made


@pytest.fixture
def empty(filled: Path, new_installation: NewInstallation) -> Installation:
    """Rows of every kind in SQLite, and an empty database."""
    made = new_installation()
    shutil.copytree(filled, made.data_folder)
    return made


def as_stored(value: Any) -> Any:
    """The value, or what its JSON document holds, with the order of its names: only its spaces may differ."""
    is_document = isinstance(value, str) and value.startswith(("[", "{"))
    with suppress(ValueError):
        return json.loads(value, object_pairs_hook=list) if is_document else value
    return value


def rows_in(installation: Installation) -> Rows:
    """The rows of each table, in an order that depends on nothing else."""
    found: Rows = {}
    for table, rows in rows_of(installation.data_folder / DATABASE).items():
        if not table.startswith(OWN):
            shown = [{name: as_stored(row[name]) for name in row if name != "rowid"} for row in rows]
            found[table] = sorted(shown, key=lambda row: json.dumps(row, sort_keys=True))
    return found


def move(installation: Installation, to: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return installation.manage("checkpoints", "move", "--to", to, "--json", **variables)


def next_user(installation: Installation, **variables: str) -> str:
    code = "from django.contrib.auth.models import User; print(User.objects.create(username='next').pk)"
    return installation.python(code, **variables)


def test_all_rows_move_and_come_back(empty: Installation) -> None:
    installation = empty
    before, path = rows_in(installation), installation.data_folder / DATABASE
    with closing(sqlite3.connect(path)) as database:
        (last,) = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'auth_user'").fetchone()
    found = installation.python(FOUND, DATABASE_URL="")
    there = move(installation, installation.url, DATABASE_URL="")
    assert there.returncode == 0, there.stderr
    document = json.loads(there.stdout)
    counts = {table: len(rows) for table, rows in before.items()}
    assert document["rows"] == counts and counts["viewer_checkpoint"] and counts["viewer_jobevent"]
    # Nothing can start from both.
    assert not path.exists() and Path(document["kept"]).is_file()
    # Rows may name paths outside the allowed folders, although other machines can write rows from now on.
    assert '"/hostile"' in (installation.data_folder / PERMITTED_FILE).read_text().splitlines()
    assert installation.python(FOUND) == found
    assert next_user(installation) == f"{last + 1}\n"
    installation.python(
        "from django.contrib.auth.models import User; User.objects.get(username='next').delete()"
    )
    back = move(installation, "sqlite")
    assert back.returncode == 0, back.stderr
    after = rows_in(installation)
    assert after == before
    assert next_user(installation, DATABASE_URL="") == f"{last + 2}\n"
    assert "moved to another database" in installation.manage("checkpoints", "list", "/nowhere").stderr


def test_half_of_a_character_in_a_document_moves(installation: Installation) -> None:
    # What a model streams may be cut within a character.
    made = "Project.objects.create(folder='/half', interpreter='p', entry_points=['\\ud83d', {'\\ud83d': 1}])"
    installation.python(f"from viewer.models import Project; {made}", DATABASE_URL="")
    there = move(installation, installation.url, DATABASE_URL="")
    assert there.returncode == 0, there.stderr
    shown = "from viewer.models import Project; print(Project.objects.get(folder='/half').entry_points)"
    assert installation.python(shown) == "['?', {'?': 1}]\n"


def test_a_failed_move_changes_nothing_and_is_repeated(installation: Installation) -> None:
    before = rows_in(installation)
    assert installation.manage("checkpoints", "answer").returncode == 0
    with installation.server.connected(installation.name) as connection:
        connection.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'full'; END $$;"
            " CREATE TRIGGER fails BEFORE INSERT ON viewer_savedsearch EXECUTE FUNCTION fail()"
        )
        failed = move(installation, installation.url, DATABASE_URL="")
        assert failed.returncode == 1 and "Nothing was moved: full" in failed.stderr
        assert connection.execute("SELECT count(*) FROM viewer_checkpoint").fetchone() == (0,)
        connection.execute("DROP TRIGGER fails ON viewer_savedsearch")
    assert rows_in(installation) == before
    assert move(installation, installation.url, DATABASE_URL="").returncode == 0


# Each name is a function of the module. A move is killed where it would be called, or where it has returned.
STEPS = ["before write_mark", "before retire_file", "after put_aside", "before end_move"]
STEPS_BACK = ["before write_mark", "after copy_all", "after database_server.retire", "before end_move"]
KILLED = """
import os, signal, sys, django
django.setup()
from django.core.management import call_command
from viewer.data_folder import moving
when, name = {step!r}.split()
owner = moving.database_server if "." in name else moving
name = name.rpartition(".")[2]
function = getattr(owner, name)
def killed(*values):
    if when == "after":
        function(*values)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, killed)
call_command("checkpoints", "move", "--to", {to!r})
"""


def kill_a_move(installation: Installation, to: str, step: str, **variables: str) -> None:
    """Move until a step, where a signal ends the process."""
    command = [sys.executable, "-c", KILLED.format(step=step, to=to)]
    environment = installation.environment(**variables)
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def refusal(installation: Installation, **variables: str) -> str:
    """Why a command does not use the rows; empty if it does."""
    ended = installation.manage("checkpoints", "answer", **variables)
    return ended.stderr if ended.returncode else ""


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_move_leaves_one_database_that_starts_and_is_repeated(
    installation: Installation, step: str
) -> None:
    before, path = rows_in(installation), installation.data_folder / DATABASE
    kill_a_move(installation, installation.url, step, DATABASE_URL="")
    if step != "before write_mark":
        assert "the move has not ended" in refusal(installation)
    # A command creates a new, empty database if the former one was put aside.
    assert not refusal(installation, DATABASE_URL="")
    assert (rows_in(installation) == before) == (step != "before end_move")
    again = move(installation, installation.url, DATABASE_URL="")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["rows"] == {table: len(rows) for table, rows in before.items()}
    assert not refusal(installation)
    assert not path.exists() or rows_in(installation) != before


def test_a_killed_move_is_repeated_after_its_source_was_used(installation: Installation) -> None:
    """Both ways: what was copied before is replaced, and nothing else."""
    for to, here in ((installation.url, {"DATABASE_URL": ""}), ("sqlite", {})):
        kill_a_move(installation, to, "after copy_all", **here)
        key = next_user(installation, **here)
        assert move(installation, to, **here).returncode == 0
        there = {} if here else {"DATABASE_URL": ""}
        code = "from django.contrib.auth.models import User; User.objects.get(username='next').delete()"
        assert installation.python(f"{code}; print('deleted')", **there) == "deleted\n" and key
        # The entries of the audit trail moved, and their triggers are back.
        code = "from viewer.models import AuditEntry; AuditEntry.objects.all().delete()"
        refused = installation.manage("shell", "-c", code, **there)
        assert "audit trail cannot be" in refused.stderr


def test_a_killed_move_of_another_database_is_not_replaced(installation: Installation) -> None:
    kill_a_move(installation, installation.url, "before end_move", DATABASE_URL="")
    # Without the former database, which was put aside, the target has the only rows.
    for kept in (installation.data_folder / "backups").glob("*moved*"):
        kept.unlink()
    assert not refusal(installation, DATABASE_URL="")
    refused = move(installation, installation.url, DATABASE_URL="")
    assert refused.returncode == 1 and "The target has other rows" in refused.stderr


@pytest.mark.parametrize("step", STEPS_BACK)
def test_a_killed_move_back_leaves_one_database_that_starts_and_is_repeated(
    installation: Installation, step: str
) -> None:
    before = rows_in(installation)
    assert move(installation, installation.url, DATABASE_URL="").returncode == 0
    kill_a_move(installation, "sqlite", step)
    if step == "before end_move":
        assert "moved to another database" in refusal(installation)
    else:
        assert not refusal(installation)
    if step != "before write_mark":
        assert "the move has not ended" in refusal(installation, DATABASE_URL="")
    again = move(installation, "sqlite")
    assert again.returncode == 0, again.stderr
    assert "moved to another database" in refusal(installation)
    assert not refusal(installation, DATABASE_URL="")
    assert rows_in(installation) == before


def test_nothing_writes_to_rows_that_were_moved(installation: Installation) -> None:
    assert move(installation, installation.url, DATABASE_URL="").returncode == 0
    # A worker of another machine that does not know it, as its connection was open before.
    with installation.server.connected(installation.name) as connection:
        assert move(installation, "sqlite").returncode == 0
        with pytest.raises(psycopg.Error, match="moved to another database"):
            connection.execute("UPDATE viewer_job SET status = 'starting' WHERE status = 'queued'")


def test_rows_are_not_moved_to_where_they_are(installation: Installation) -> None:
    for to, url in (("sqlite", ""), (installation.url, installation.url)):
        refused = move(installation, to, DATABASE_URL=url)
        assert refused.returncode == 1 and "already there" in refused.stderr


def test_a_target_with_other_rows_is_refused(installation: Installation) -> None:
    before = rows_in(installation)
    assert installation.manage("checkpoints", "answer").returncode == 0
    assert next_user(installation)
    refused = move(installation, installation.url, DATABASE_URL="")
    assert refused.returncode == 1 and "The target has other rows" in refused.stderr
    assert rows_in(installation) == before


def test_rows_in_use_are_not_moved(installation: Installation) -> None:
    code = "import django; django.setup(); from viewer.data_folder.locks import use; use(); print(); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = installation.environment(DATABASE_URL="")
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, **pipes) as user:  # type: ignore[call-overload]
        assert user.stdout.readline()
        refused = move(installation, installation.url, DATABASE_URL="")
        user.kill()
    assert refused.returncode == 1 and "Forkline is running" in refused.stderr


@pytest.mark.parametrize("to", ["mysql://canary@host/x", "postgresql://canary:canary@/"])
def test_an_invalid_target_is_refused(installation: Installation, to: str) -> None:
    refused = move(installation, to, DATABASE_URL="")
    assert refused.returncode == 1 and "--to must be" in refused.stderr and "canary" not in refused.stderr
