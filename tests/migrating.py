"""Migrates the test database back to an earlier version and forth."""

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


def single_migrations() -> MigrationExecutor:
    """Return an executor that applies each migration itself, not the one that replaces them."""
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    return executor
