"""The rows and the schema of a SQLite database, in a form that does not depend on how it was created."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

Rows = dict[str, list[dict[str, Any]]]
# An index stores its text in separate tables.
INDEX_TABLES = ("viewer_searchtext_", "sqlite_")
# A text, a name, a parenthesis, a comma, or what is between them.
PARTS = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|[(),]|[^'"(),]+""")


def rows_of(database: Path) -> Rows:
    """Return every row of every table, as JSON can hold it."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = {
            name: [dict(row) for row in connection.execute(f"SELECT rowid, * FROM {name} ORDER BY rowid")]
            for name in names
            if not name.startswith(INDEX_TABLES)
        }
    found: Rows = json.loads(json.dumps(rows, default=repr))
    return found


def schema_of(database: Path) -> dict[str, Any]:
    """Return the columns and constraints of each table, and the other statements of the schema."""
    with closing(sqlite3.connect(database)) as connection:
        made = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    # A column that was added later has another position.
    return {
        name: sorted(parts_of(sql)) if sql.startswith("CREATE TABLE") else sql for name, sql in made.items()
    }


def parts_of(statement: str) -> list[str]:
    """Return the columns and constraints in a statement that creates a table."""
    parts, depth = [""], 0
    for token in PARTS.findall(statement[statement.index("(") + 1 : statement.rindex(")")]):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def names_of(database: Path) -> dict[str, set[Any]]:
    """Return the applied migrations, and the permissions."""
    with closing(sqlite3.connect(database)) as connection:
        applied = connection.execute("SELECT app, name FROM django_migrations").fetchall()
        permissions = connection.execute("SELECT codename, name FROM auth_permission").fetchall()
    return {"migrations": set(applied), "permissions": set(permissions)}
