"""A new database gets the squashed migration, and one that has some of its migrations gets the others."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from viewer.data_folder.backups import INITIAL, REPLACED, Migration, inspected
from viewer.migrations import SQUASHED

SQUASH: Migration = ("viewer", "0001_squashed_0018_audit")


def planned() -> list[str]:
    """Return the migrations of the squash, and itself, that an upgrade of the database would apply."""
    executor = MigrationExecutor(connection)
    executor.loader.check_consistent_history(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes("viewer"))
    return [one.name for one, _backwards in plan if one.name in (*SQUASHED, SQUASH[1])]


def keep(*names: str) -> None:
    """Delete the records of all other migrations, as in a database that lacks them."""
    recorded = MigrationRecorder(connection).migration_qs.filter(app="viewer")
    recorded.exclude(name__in=names).delete()


@pytest.mark.parametrize("count", range(1, len(SQUASHED) + 1))
def test_a_database_with_some_migrations_gets_the_others(db: None, count: int) -> None:
    keep(*SQUASHED[:count])
    assert planned() == list(SQUASHED[count:])


def test_a_new_database_gets_the_squashed_migration(db: None) -> None:
    keep()
    assert planned() == [SQUASH[1]]


def test_a_database_of_the_oldest_version_has_the_first_migration(db: None) -> None:
    """Also one whose upgrade an earlier version began: Django recorded the first migration last."""
    tables, later = {"viewer_run"}, ("viewer", SQUASHED[1])
    for applied in (REPLACED, REPLACED | {later}):
        found = inspected("here", tables, set(applied))
        assert found.is_oldest and not found.is_older
    assert not inspected("here", tables, {*REPLACED, INITIAL}).is_oldest
    # Versions before 0.1.0 had a migration of the same name.
    found = inspected("here", tables, {INITIAL})
    assert found.is_older and not found.is_oldest
