"""An upgraded database of version 0.1.0 keeps every row, and has the same tables as a new one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.langgraph.postgresql.server import FORKLINE
from tests.postgresql.conftest import ROOT, Installation
from tests.set_up.test_recorded_data_folder import DATABASE, unpacked
from viewer.migrations import UNRELEASED

SCHEMA = (
    "SELECT table_name, column_name, data_type, udt_name, character_maximum_length, is_nullable,"
    " column_default, collation_name, identity_generation FROM information_schema.columns"
    " WHERE table_schema = 'public'",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "SELECT typname, array(SELECT enumlabel FROM pg_enum WHERE enumtypid = pg_type.oid"
    " ORDER BY enumsortorder) FROM pg_type WHERE typnamespace = 'public'::regnamespace",
    "SELECT sequencename, data_type::text FROM pg_sequences WHERE schemaname = 'public'",
    "SELECT last_value, name FROM pg_sequences, viewer_host WHERE sequencename = 'viewer_host_id_seq'",
    "SELECT app, name FROM django_migrations",
    "SELECT codename, name FROM auth_permission",
)


def of_recorded_rows(made: Installation, act: str, recorded: Path) -> str:
    """Load the recorded rows into the database, or compare them. Return what was printed."""
    command = [sys.executable, "-m", "tests.recorded_data_folder.on_postgresql", act, str(recorded)]
    ended = subprocess.run(
        command, cwd=ROOT, env=made.environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_an_upgraded_database_keeps_its_rows_and_is_like_a_new_one(
    new_installation: Callable[..., Installation], tmp_path: Path
) -> None:
    made = new_installation()
    recorded = unpacked(tmp_path / "recorded") / DATABASE
    of_recorded_rows(made, "load", recorded)
    ended = made.manage("checkpoints", "answer")
    assert ended.returncode == 0, ended.stderr
    assert of_recorded_rows(made, "compare", recorded) == "[]\n"
    for statement in SCHEMA:
        rows = []
        for name in (made.name, FORKLINE):
            with made.server.connected(name) as connection:
                rows.append({repr(row) for row in connection.execute(statement)})
        assert rows[0] == rows[1] != set(), statement


def test_a_database_with_every_unreleased_migration_is_up_to_date(installation: Installation) -> None:
    with installation.server.connected(installation.name) as connection:
        connection.execute("DELETE FROM django_migrations WHERE name = '0002_version_0_2_0'")
        assert installation.manage("checkpoints", "answer").returncode == 0
        assert installation.manage("migrate", "--check").returncode == 0
        connection.execute("DELETE FROM django_migrations WHERE name = %s", UNRELEASED[-1:])
        rows = connection.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall()
        ended = installation.manage("checkpoints", "list", "/nowhere")
        assert ended.returncode == 1 and "Restore a copy from version 0.1.0" in ended.stderr
        assert connection.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall() == rows


def test_an_upgrade_that_ended_after_its_migrations_is_completed(installation: Installation) -> None:
    collation = (
        "SELECT collation_name FROM information_schema.columns"
        " WHERE table_name = 'viewer_run' AND column_name = 'name'"
    )
    with installation.server.connected(installation.name) as connection:
        connection.execute('ALTER TABLE viewer_run ALTER COLUMN name TYPE varchar(300) COLLATE "default"')
        connection.execute("COMMENT ON TABLE django_migrations IS 'Forkline 1000'")
        assert installation.manage("checkpoints", "answer").returncode == 0
        assert connection.execute(collation).fetchall() == [("C",)]
