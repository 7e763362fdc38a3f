"""The full-text index of search entries on PostgreSQL. SQLite has it from 0001_initial."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

# The words of a text, separated by spaces: letters and digits, without case and accents. The collation makes
# them the same whatever the language of the database is. Its cost makes the server prefer the index.
WORDS = """
CREATE FUNCTION forkline_words(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000 AS $$
    SELECT regexp_replace(
        lower(normalize(regexp_replace(normalize($1, NFD), '[\u0300-\u036f]', '', 'g'), NFC){collate}),
        '[^[:alnum:]]+', ' ', 'g')
$$
"""
COLLATION = ' COLLATE "und-x-icu"'
# With pending entries, it would be twice as large.
INDEX = """
CREATE INDEX viewer_searchentry_words ON viewer_searchentry
USING gin (to_tsvector('simple', forkline_words(text))) WITH (fastupdate = off)
"""


def create_index(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Create the function and the index. A server without ICU knows the letters of its own language only."""
    if editor.connection.vendor != "postgresql":
        return
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'")
        has_icu = bool(cursor.fetchone()[0])
    editor.execute(WORDS.replace("{collate}", COLLATION if has_icu else ""))
    editor.execute(INDEX)


def drop_index(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    if editor.connection.vendor == "postgresql":
        editor.execute("DROP INDEX viewer_searchentry_words")
        editor.execute("DROP FUNCTION forkline_words(text)")


class Migration(migrations.Migration):
    dependencies = [("viewer", "0004_host_requests")]

    operations = [migrations.RunPython(create_index, drop_index)]
