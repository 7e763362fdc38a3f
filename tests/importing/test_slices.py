"""What is stored together: a run's checkpoints, as far as they come one after the other."""

from itertools import chain

import pytest

from tests.real_stores import STORES
from viewer.importing import importing
from viewer.stores import store_at
from viewer.stores.packing import Packed, read_packed
from viewer.stores.protocol import Entry, ReadProblem


def read(store: str) -> list[Packed | ReadProblem]:
    """A real store's checkpoints, in the order of their names."""
    with store_at(STORES / store) as provider:
        entries = [item for item in provider.entries() if isinstance(item, Entry)]
        entries.sort(key=lambda entry: entry.key.rpartition("/")[2])
        return [read_packed(provider, entry) for entry in entries]


# The first tells no parents: there, only the kickoff tells one run from another.
@pytest.mark.parametrize("first", ["1.14.1/json", "1.15.30/json"])
def test_a_slice_ends_where_another_run_begins(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "WORTH_STORING", 1)
    runs = [read(first), read("1.14.1/flow"), read("1.14.1/agent")]
    assert all(len(run) > 1 for run in runs)
    assert list(importing._slices(chain.from_iterable(runs))) == runs


def test_a_run_begins_where_what_it_continues_was_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "WORTH_STORING", 1)
    pruned = read("1.14.2/flow")[1:]
    assert isinstance(pruned[0], Packed) and pruned[0].snapshot.parent_id
    runs = [read("1.15.30/json"), pruned]
    assert list(importing._slices(chain.from_iterable(runs))) == runs


def test_few_checkpoints_and_a_full_slice_are_stored_together(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [*read("1.14.1/flow"), *read("1.14.7/flow")]
    assert list(importing._slices(iter(results))) == [results]
    monkeypatch.setattr(importing, "SLICE", 2)
    assert [len(some) for some in importing._slices(iter(results))] == [2] * (len(results) // 2)
