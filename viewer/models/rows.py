"""What rows of several models share: ids in addresses, columns, and writing many at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, models

from viewer.messages.message import UserMessage, message_from

# Ids of rows in addresses and forms.


def uuid_of(text: str) -> UUID | None:
    """The UUID that this text writes; None if it is not one."""
    try:
        return UUID(text)
    except ValueError:
        return None


# A column that holds a message for people.


class UserMessageField(models.JSONField):
    """A ``UserMessage``, stored as its code and values in JSON; None if there is none."""

    def deconstruct(self) -> Any:
        """As a plain JSON field, so that migrations do not depend on this class."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> UserMessage | None:
        """The stored message."""
        return message_from(super().from_db_value(value, expression, connection))

    def get_prep_value(self, value: Any) -> Any:
        """The stored form of a message."""
        return super().get_prep_value(value.as_data() if isinstance(value, UserMessage) else value)

    def value_to_string(self, obj: models.Model) -> Any:
        """The serialized form of a message."""
        return self.get_prep_value(self.value_from_object(obj))


# The tokens that a run or a job used, and what they cost.


class Metered(models.Model):
    """What the model calls of a run or a job used, by model, and their price.

    The price is computed after the usage is stored (viewer/records/prices.py).
    """

    # [model, calls, tokens, tokens in, tokens out, cached tokens] for each model, most tokens first.
    usage = models.JSONField(default=list, blank=True, db_default=[])
    tokens_in = models.PositiveBigIntegerField(default=0, db_default=0)
    tokens_out = models.PositiveBigIntegerField(default=0, db_default=0)
    # The models, most tokens first.
    model = models.CharField(max_length=300, blank=True, default="", db_default="")
    # In US dollars. None if no call has a known price.
    cost = models.FloatField(null=True, blank=True)
    # The calls whose price is unknown, which ``cost`` leaves out.
    unpriced_calls = models.PositiveIntegerField(default=0, db_default=0)
    is_priced = models.BooleanField(default=True, db_default=True)

    class Meta:
        abstract = True

    # The columns that the usage determines.
    USAGE_COLUMNS = ("tokens", "usage", "tokens_in", "tokens_out", "model")


def usage_values(usage: list[list[Any]]) -> list[Any]:
    """The values of ``Metered.USAGE_COLUMNS`` for this usage by model."""
    names = ", ".join(row[0] for row in usage if row[0])
    return [sum(row[2] for row in usage), usage, *(sum(row[n] for row in usage) for n in (3, 4)), names[:300]]


# Writing and finding many rows at once. They are written with one prepared statement: Django's
# ``bulk_create`` and ``bulk_update`` take several times as long.

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
