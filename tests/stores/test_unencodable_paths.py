"""SQLite files below folders whose names are not UTF-8: each place that opens one by its address."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from checkpoint_site.sqlite_backend.base import DatabaseWrapper
from forkline_crewai import checkpoints
from forkline_langgraph.checkpoints import address_of_file
from tests.real_stores import copy_of
from viewer.data_folder import migrating, permissions
from viewer.host.locations.pruning import delete_entries
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.stores.protocol import Entry, Packed, ReadLimits
from viewer.stores.safe_open import identity_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / os.fsdecode(b"caf\xe9 #%3f")
    folder.mkdir()
    return Path(shutil.move(copy_of("1.14.1/cp.db", tmp_path), folder / "cp.db"))


def count(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT count(*) FROM checkpoints").fetchone()[0])


def test_a_store_is_read_and_pruned(store: Path) -> None:
    descriptor = os.open(store.parent, os.O_RDONLY)
    address = LocationAddress(store, ReadLimits(), identity=str(identity_of(descriptor, store.lstat())))
    os.close(descriptor)
    with open_reader(address) as reader:
        entries = [item for item in reader.entries() if isinstance(item, Entry)]
        assert all(isinstance(item, Packed) for item in reader.read_all(entries, 1))
    assert not delete_entries(address, entries[:1], lambda *_: True)
    with closing(sqlite3.connect(store)) as database:
        assert count(database) == len(entries) - 1


def test_the_databases_of_forkline_are_opened(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with migrating.opened_to_read(store) as database:
        assert count(database)
    monkeypatch.setattr(permissions, "is_remembered", lambda: True)
    wrapper = DatabaseWrapper({**connection.settings_dict, "NAME": str(store)})
    with closing(wrapper.get_new_connection(wrapper.get_connection_params())) as database:
        assert count(database)


def test_runners_open_a_store(store: Path) -> None:
    with checkpoints.opened(store) as database:
        assert count(database)
    with closing(sqlite3.connect(address_of_file(store, store.parent)[0], uri=True)) as database:
        assert count(database)
        (key,) = database.execute("SELECT id FROM checkpoints").fetchone()
    assert checkpoints.delete(checkpoints.written(f"{store}#{key}", "sqlite"), "sqlite")
