"""The squashed migration creates the same tables as the migrations that it combines."""

import subprocess
import sys
from collections.abc import Callable

from tests.langgraph.postgresql.server import FORKLINE
from tests.postgresql.conftest import ROOT, Installation

ONE_BY_ONE = (
    "import django; django.setup()\n"
    "from django.db import connection\n"
    "from django.db.migrations.executor import MigrationExecutor\n"
    "from viewer.data_folder.database_server import order_texts_by_bytes\n"
    "executor = MigrationExecutor(connection)\n"
    "executor.loader.replace_migrations = False; executor.loader.build_graph()\n"
    "leaves = [one for one in executor.loader.graph.leaf_nodes() if 'squashed' not in one[1]]\n"
    "executor.migrate(leaves); order_texts_by_bytes()"
)
SCHEMA = (
    "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default,"
    " collation_name, identity_generation FROM information_schema.columns WHERE table_schema = 'public'",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "SELECT sequencename, data_type::text, last_value FROM pg_sequences WHERE sequencename LIKE 'viewer%'",
    "SELECT name FROM viewer_host",
)


def test_a_new_database_is_like_one_with_each_migration(
    new_installation: Callable[..., Installation],
) -> None:
    made = new_installation()
    command = [sys.executable, "-c", ONE_BY_ONE]
    subprocess.run(command, cwd=ROOT, env=made.environment(), check=True)
    for statement in SCHEMA:
        rows = []
        for name in (made.name, FORKLINE):
            with made.server.connected(name) as connection:
                rows.append(set(connection.execute(statement).fetchall()))
        assert rows[0] == rows[1] != set(), statement
