"""Insert, update and find many rows at once.

They are written with one prepared statement: Django's ``bulk_create`` and ``bulk_update`` take several times
as long.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from django.db import connection, models

Value = TypeVar("Value")
# The values in one SQL statement.
MAX_VALUES = 500


def insert_many(
    model: type[models.Model],
    columns: Sequence[str],
    values: Sequence[Sequence[Any]],
    expressions: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Store new rows: the values of these columns, as the database stores them.

    ``expressions`` are SQL for columns that are computed from their values.
    """
    quote = connection.ops.quote_name
    quoted = ", ".join(map(quote, columns))
    placeholders = ", ".join(expressions.get(column, "%s") for column in columns)
    _execute_many(f"INSERT INTO {quote(model._meta.db_table)} ({quoted}) VALUES ({placeholders})", values)  # noqa: S608


def update_many(model: type[models.Model], columns: Sequence[str], values: Sequence[Sequence[Any]]) -> None:
    """Change rows: the values of these columns, as the database stores them, and last the primary key."""
    quote, key = connection.ops.quote_name, model._meta.pk
    assert key is not None, "Every model has a primary key."
    changes = ", ".join(f"{quote(column)} = %s" for column in columns)
    table, key_column = quote(model._meta.db_table), quote(str(key.column))
    _execute_many(f"UPDATE {table} SET {changes} WHERE {key_column} = %s", values)  # noqa: S608


def _execute_many(statement: str, values: Sequence[Sequence[Any]]) -> None:
    if values:
        with connection.cursor() as cursor:
            cursor.executemany(statement, values)


def in_slices(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """The values in slices, each small enough for one SQL statement."""
    return (values[at : at + MAX_VALUES] for at in range(0, len(values), MAX_VALUES))
