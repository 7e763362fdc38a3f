"""Patches of where flows with ``@persist`` store their states."""

from __future__ import annotations

import functools
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.flow.persistence.base import FlowPersistence

from forkline_runner.recorded import change_classes

if TYPE_CHECKING:
    from typing import Self

LOCK_SECONDS = 10
METHODS = {
    *("save_state", "load_state"),
    *("save_pending_feedback", "load_pending_feedback", "clear_pending_feedback"),
}


def leave_existing_files() -> None:
    """Do not create tables in a file that exists, and do not change how it is written.

    Patches: crewai.flow.persistence.SQLiteFlowPersistence.init_db
    Versions: 1.14.2 and newer
    Why: ``@persist`` opens its file when the project is imported, and turns on its write-ahead log. A fork
        leaves the file as it is.
    Test: tests/runners/stores/test_forks_of_flow_states.py::test_a_fork_leaves_every_byte_of_the_store
    """
    engine: Any = SQLiteFlowPersistence
    init_db = engine.init_db

    def init_new(self: Any) -> None:
        path = Path(self.db_path)
        if not (path.is_file() and path.stat().st_size):
            init_db(self)

    engine.init_db = init_new


def redirect_states(
    own: Any, others: Any, is_own: Callable[[str], bool], saved: Callable[[str], object]
) -> None:
    """Store the states of a run's flow in ``own``, and those of every other flow in ``others``.

    ``is_own`` says whether the id of a flow is that of the run's flow. A state that ``others`` lacks is read
    from the flow's own store. If ``others`` is None, other flows store theirs themselves.
    ``saved`` is called with the id of the run's flow after each of its states.

    Patches: save_state, load_state, save_pending_feedback, load_pending_feedback and clear_pending_feedback
        of crewai.flow.persistence.base.FlowPersistence and its subclasses, and its __init_subclass__
    Versions: 1.14.2 and newer
    Why: Before 1.15, ``@persist`` ignores the persistence that a flow is given, and so do flows in methods. A
        fork would write to the store of the location.
    Test: tests/runners/stores/test_forks_of_flow_states.py::test_a_fork_leaves_every_byte_of_the_store
    """

    def redirected(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(self: Any, flow_uuid: str, *rest: Any, **named: Any) -> Any:
            store = own if is_own(flow_uuid) else others
            if store is not None and store is not self:
                found = getattr(store, name)(flow_uuid, *rest, **named)
                is_elsewhere = name == "load_state" and found is None and self is not own
                return original(self, flow_uuid) if is_elsewhere else found
            found = original(self, flow_uuid, *rest, **named)
            if self is own and name.startswith("save_") and is_own(flow_uuid):
                saved(flow_uuid)
            return found

        return call

    def redirect(cls: Any) -> None:
        for name in METHODS & vars(cls).keys():
            setattr(cls, name, redirected(name, vars(cls)[name]))

    change_classes(FlowPersistence, redirect)


@contextmanager
def in_one_transaction(store: Any) -> Iterator[sqlite3.Connection]:
    """Have a persistence save its states with one connection, which commits unless the block raises.

    Patches: sqlite3 and store_lock of crewai.flow.persistence.sqlite
    Versions: 1.14.2 and newer
    Why: ``SQLiteFlowPersistence`` opens a connection for each state and commits it. It takes
        ``store_lock`` before SQLite locks the file. Taking only the latter could deadlock with a flow.
    Test: tests/runners/stores/test_publishing_flow_states.py::test_a_failure_writes_nothing
    """
    engine: Any = sys.modules[SQLiteFlowPersistence.__module__]
    lock = getattr(engine, "store_lock", None)
    with lock(store._lock_name) if lock else nullcontext():
        connection = sqlite3.connect(store.db_path, timeout=LOCK_SECONDS, factory=_OneTransaction)
        engine.sqlite3 = SimpleNamespace(**{**vars(sqlite3), "connect": lambda *_args, **_named: connection})
        engine.store_lock = nullcontext
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.commit_all()
        finally:
            engine.sqlite3, engine.store_lock = sqlite3, lock
            # Without a commit, nothing was written.
            connection.close_at_last()


class _OneTransaction(sqlite3.Connection):
    """A connection that ignores the commits of the engine, which commits after each state."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        return False

    def commit(self) -> None:
        pass

    def close(self) -> None:
        pass

    def commit_all(self) -> None:
        super().commit()

    def close_at_last(self) -> None:
        super().close()
