"""Slices: the checkpoints that are stored together."""

from dataclasses import replace
from itertools import chain

import pytest

from quality.local_stores import store_at
from tests.real_stores import STORES
from viewer.host.locations import importing
from viewer.host.reading.snapshots import read_packed
from viewer.stores.protocol import Entry, Packed, ReadProblem


def read(store: str) -> list[Packed | ReadProblem]:
    """The checkpoints of a real store in the order of their names."""
    with store_at(STORES / store) as opened:
        entries = [item for item in opened.entries() if isinstance(item, Entry)]
        entries.sort(key=lambda entry: entry.key.rpartition("/")[2])
        return [read_packed(opened, entry) for entry in entries]


# The first records no parents, so that only the kickoff distinguishes runs.
@pytest.mark.parametrize("first", ["1.14.1/json", "1.15.30/json"])
def test_a_slice_ends_before_the_next_run(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MIN_SLICE", 1)
    runs = [read(first), read("1.14.1/flow"), read("1.14.1/agent")]
    assert all(len(run) > 1 for run in runs)
    assert list(importing.slices(chain.from_iterable(runs))) == runs


def test_a_checkpoint_with_a_pruned_parent_begins_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MIN_SLICE", 1)
    pruned = read("1.14.2/flow")[1:]
    assert isinstance(pruned[0], Packed) and pruned[0].snapshot.parent_id
    runs = [read("1.15.30/json"), pruned]
    assert list(importing.slices(chain.from_iterable(runs))) == runs


def test_checkpoints_without_a_kickoff_do_not_belong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MIN_SLICE", 1)
    found = [result for result in read("1.14.1/json") if isinstance(result, Packed)]
    assert len(found) > 1
    unknown = [replace(one, snapshot=replace(one.snapshot, run_key="", parent_id=None)) for one in found]
    assert list(importing.slices(iter(unknown))) == [[one] for one in unknown]


def test_a_small_slice_is_not_split_and_a_full_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [*read("1.14.1/flow"), *read("1.14.7/flow")]
    assert list(importing.slices(iter(results))) == [results]
    monkeypatch.setattr(importing, "MAX_SLICE", 2)
    assert [len(some) for some in importing.slices(iter(results))] == [2] * (len(results) // 2)
