"""Have PostgreSQL find words with the index, and the newest checkpoint of each location without sorting."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

# A function with a setting is not inlined, so the planner uses its cost, and computes the words of few texts.
STATEMENTS = (
    "ALTER FUNCTION forkline_words(text) SET search_path = pg_catalog",
    "CREATE INDEX viewer_checkpoint_newest ON viewer_checkpoint (location_id, id)",
)
UNDONE = (
    "ALTER FUNCTION forkline_words(text) RESET search_path",
    "DROP INDEX viewer_checkpoint_newest",
)


def change(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """SQLite's own index of a location is in the order of the ids, and FTS5 has one plan."""
    for statement in STATEMENTS if editor.connection.vendor == "postgresql" else ():
        editor.execute(statement)


def undo(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    for statement in UNDONE if editor.connection.vendor == "postgresql" else ():
        editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("viewer", "0011_host_faults")]

    operations = [migrations.RunPython(change, undo)]
