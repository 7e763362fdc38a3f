"""The database backend named in ``DATABASES`` if ``DATABASE_URL`` is set."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.db.backends.postgresql import base, operations
from django.db.models.expressions import Col, OrderBy, Ref
from django.db.models.fields.json import JSONExact, KeyTextTransform, KeyTransformIn
from psycopg.types.json import Json
from psycopg.types.string import TextLoader

from viewer.postgresql import REPLACEMENT, listener, without_nul

READS = re.compile(
    r"\s*(SELECT|SAVEPOINT|RELEASE|ROLLBACK|SET|SHOW|FETCH|DECLARE|CLOSE|BEGIN|LISTEN|UNLISTEN|NOTIFY)\b",
    re.IGNORECASE,
)
# A host that is cut off must not keep rows locked. JIT compilation takes longer than any query here. Set
# per connection, since poolers refuse other parameters.
ON_CONNECT = (
    "SET idle_in_transaction_session_timeout = '60s'; SET jit = off;"
    " SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)


class DatabaseOperations(operations.DatabaseOperations):
    """Stores JSON without NUL characters, and with the order of its names."""

    def adapt_json_value(self, value: Any, encoder: Any) -> Any:
        """Return the value as a parameter."""
        return Json(value, dumps=partial(_dumped, encoder=encoder))


def _dumped(value: Any, encoder: Any) -> str:
    # Half of a surrogate pair cannot be stored either.
    text = json.dumps(value, cls=encoder, ensure_ascii=False)
    return without_nul(text.encode(errors="replace").decode())


class DatabaseWrapper(base.DatabaseWrapper):
    """Notifies after each commit that may have changed rows. Orders and stores texts as SQLite does."""

    ops_class = DatabaseOperations
    # ``jsonb`` would sort the names of objects, whose order people see, and write numbers differently.
    data_types = {**base.DatabaseWrapper.data_types, "JSONField": "json"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_written = False
        self.execute_wrappers.append(self._note_writes)

    def init_connection_state(self) -> None:
        super().init_connection_state()
        # Django parses the text itself.
        self.connection.adapters.register_loader("json", TextLoader)
        with self.connection.cursor() as cursor:
            cursor.execute(ON_CONNECT)
        if not self.get_autocommit():
            self.connection.commit()

    def _note_writes(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        result = execute(sql, _storable(params, many=many), many, context)
        # Such as an update that looks for something every few seconds.
        has_changed_nothing = not many and context["cursor"].rowcount == 0
        if not has_changed_nothing and not READS.match(str(sql)):
            if self.get_autocommit():
                listener.announce()
            else:
                self._has_written = True
        return result

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        if self._has_written:
            self._has_written = False
            listener.announce()

    def _rollback(self) -> None:
        self._has_written = False
        super()._rollback()  # type: ignore[misc]


def _storable(params: Any, *, many: bool) -> Any:
    """The parameters without NUL characters, which PostgreSQL cannot hold in a text, and SQLite can."""
    if params is None or isinstance(params, Mapping):
        return params
    if many:
        return [_storable(row, many=False) for row in params]
    return [one.replace("\0", REPLACEMENT) if isinstance(one, str) else one for one in params]


def ordered_like_sqlite(self: OrderBy, compiler: Any, connection: Any, **options: Any) -> Any:
    """Order what has no value before all values. A column that always has one can use its index."""
    ordered = self.copy()
    if not self.nulls_first and not self.nulls_last and _may_be_null(self.expression):
        ordered.nulls_first, ordered.nulls_last = (False, True) if self.descending else (True, False)
    return ordered.as_sql(compiler, connection, **options)


def _may_be_null(expression: Any) -> bool:
    # A column that the query selects has its own expression.
    while isinstance(expression, Ref):
        (expression,) = expression.get_source_expressions()
    return not isinstance(expression, Col) or bool(expression.target.null)


def equal_documents(self: JSONExact, compiler: Any, connection: Any) -> Any:
    """Compare JSON values as ``jsonb``: the type ``json`` has no equality operator."""
    if isinstance(self.lhs, KeyTextTransform):
        return self.as_sql(compiler, connection)
    left, left_params = self.process_lhs(compiler, connection)
    right, right_params = self.process_rhs(compiler, connection)
    return f"({left})::jsonb = ({right})::jsonb", [*left_params, *right_params]


def in_documents(self: KeyTransformIn, compiler: Any, connection: Any) -> Any:
    """Compare with a list of JSON values as ``jsonb``."""
    if isinstance(self.lhs, KeyTextTransform) or not self.rhs_is_direct_value():
        return self.as_sql(compiler, connection)
    left, left_params = self.process_lhs(compiler, connection)
    right, right_params = self.process_rhs(compiler, connection)
    return f"({left})::jsonb IN {right.replace('%s', '%s::jsonb')}", [*left_params, *right_params]


# Where an expression's SQL differs, Django calls the method of this name.
OrderBy.as_postgresql = ordered_like_sqlite  # type: ignore[attr-defined]
JSONExact.as_postgresql = equal_documents  # type: ignore[attr-defined]
KeyTransformIn.as_postgresql = in_documents  # type: ignore[attr-defined]
