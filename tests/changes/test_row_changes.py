"""Rows that any process changes are reported: with SQLite, and on a PostgreSQL server."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection, transaction

from viewer.data_folder.changes import Changes, changes_of_data, changes_of_rows
from viewer.models import Project

pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(function: object) -> None:
    def call() -> None:
        function()  # type: ignore[operator]
        connection.close()

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def create() -> None:
    Project.objects.create(folder="/one", interpreter="python")


def create_in_a_transaction() -> None:
    with transaction.atomic():
        create()


def read_reported(changes: Changes) -> None:
    """Read what was reported so far."""
    while changes.wait(0.3):
        pass


@pytest.mark.parametrize("change", [create, create_in_a_transaction])
def test_a_commit_is_reported(change: object) -> None:
    with closing(changes_of_rows()) as rows, closing(changes_of_data()) as data:
        read_reported(rows)
        read_reported(data)
        in_thread(change)
        assert rows.wait(60) and data.wait(5)


def test_commits_and_files_are_waited_for_together(tmp_path: Path) -> None:
    with closing(changes_of_data(tmp_path)) as changes:
        read_reported(changes)
        (tmp_path / "request").touch()
        assert changes.wait(60)
        read_reported(changes)
        in_thread(create)
        assert changes.wait(60)


@pytest.fixture
def high_descriptors() -> Iterator[None]:
    """Have each further descriptor be above those that ``select`` takes, as in a web server with a crowd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    opened = [os.dup(0)]
    while opened[-1] < 1024:
        opened.append(os.dup(0))
    yield
    for one in opened:
        os.close(one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_changes_are_reported_with_thousands_of_descriptors(tmp_path: Path, high_descriptors: None) -> None:
    with closing(changes_of_rows()) as rows, closing(changes_of_data(tmp_path)) as data:
        read_reported(rows)
        read_reported(data)
        in_thread(create)
        assert rows.wait(60) and data.wait(60)
