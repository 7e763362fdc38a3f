"""The full-text index of search entries in SQLite.

Triggers keep it up to date. A migration that rebuilds the table of entries has to create them again.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

CREATE = (
    "CREATE VIRTUAL TABLE viewer_searchtext USING fts5("
    "text, content='viewer_searchentry', content_rowid='id', tokenize='unicode61 remove_diacritics 2')",
    # Deleted texts leave no words behind.
    "INSERT INTO viewer_searchtext(viewer_searchtext, rank) VALUES ('secure-delete', 1)",
    "CREATE TRIGGER viewer_searchentry_inserted AFTER INSERT ON viewer_searchentry BEGIN"
    " INSERT INTO viewer_searchtext(rowid, text) VALUES (new.id, new.text); END",
    "CREATE TRIGGER viewer_searchentry_deleted AFTER DELETE ON viewer_searchentry BEGIN"
    " INSERT INTO viewer_searchtext(viewer_searchtext, rowid, text) VALUES ('delete', old.id, old.text); END",
)
DROP = (
    "DROP TRIGGER viewer_searchentry_inserted",
    "DROP TRIGGER viewer_searchentry_deleted",
    "DROP TABLE viewer_searchtext",
)


def create(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    execute(editor, CREATE)


def drop(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    execute(editor, DROP)


def execute(editor: BaseDatabaseSchemaEditor, statements: tuple[str, ...]) -> None:
    """Other databases have their own full-text search."""
    if editor.connection.vendor == "sqlite":
        for statement in statements:
            editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("viewer", "0019_search")]

    operations = [migrations.RunPython(create, drop)]
