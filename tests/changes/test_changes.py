"""Every implementation of change notification reports a change, once."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from viewer.data_folder.changes import Changes, CommitChanges, FileChanges, file_changes

Commit = Callable[[], object]


@pytest.fixture
def commit(tmp_path: Path) -> Iterator[Commit]:
    """Commits to a database, as another process would."""
    with closing(sqlite3.connect(tmp_path / "rows.sqlite3", isolation_level=None)) as database:
        database.execute("CREATE TABLE rows (number)")
        yield lambda: database.execute("INSERT INTO rows VALUES (1)")


@pytest.fixture(params=["commits", "files"])
def changes(request: pytest.FixtureRequest, tmp_path: Path, commit: Commit) -> Iterator[Changes]:
    path = tmp_path / "rows.sqlite3"
    with closing(CommitChanges(path) if request.param == "commits" else file_changes([tmp_path])) as made:
        # The first call may report what was there before.
        made.wait()
        yield made


def test_a_commit_is_reported_once(changes: Changes, commit: Commit) -> None:
    assert not changes.wait(0.05)
    commit()
    assert changes.wait(60)
    assert not changes.wait(0.05)
    commit()
    assert changes.wait(), "A call that does not wait reports it, too."


def test_commits_in_a_row_are_reported_together(changes: Changes, commit: Commit) -> None:
    for _number in range(3):
        commit()
    assert changes.wait(60)
    assert not changes.wait()


def test_a_file_next_to_the_database_is_reported(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    with closing(file_changes([tmp_path, beside])) as changes:
        (beside / "request").touch()
        assert changes.wait(60)


def test_without_notifications_files_are_polled() -> None:
    began = time.monotonic()
    assert FileChanges(None).wait(60)
    assert time.monotonic() - began < 30


def test_a_folder_that_is_gone_counts_as_changed(tmp_path: Path) -> None:
    with closing(file_changes([tmp_path / "gone"])) as changes:
        assert changes.wait(0)
