"""A large first import, read by two processes."""

import json
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.real_stores import hashes_below, one_checkpoint
from viewer.importing import import_location, open_location, reader
from viewer.models import Location
from viewer.providers import provider_for
from viewer.providers.helper import Helper
from viewer.providers.packing import Packed
from viewer.providers.snapshot import Entry, Fault, Limits

COUNT = 90


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of enough checkpoints for a helper, some of them broken."""
    monkeypatch.setattr(reader, "WORTH_A_HELPER", 10)
    monkeypatch.setattr(reader, "ENTRIES_A_TURN", 3)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(COUNT):
        body = one_checkpoint()
        body["entities"][0]["checkpoint_state"]["id"] = f"run {number // 10}"
        body["entities"][0]["checkpoint_state"]["api_key"] = f"CANARY-{number:04d}"
        text = json.dumps(body)
        (folder / f"20260101T0000{number % 60:02d}_{number:08x}_p-none.json").write_text(
            text[:-9] if number % 30 == 7 else text
        )
    return folder


@pytest.mark.django_db
def test_it_comes_to_the_same_as_one_process(many: Path) -> None:
    before = hashes_below(many)
    location = open_location(many)
    summary = import_location(location)
    assert (summary.read, summary.added, summary.problems) == (COUNT, COUNT - 3, 3)
    assert sorted(location.runs.values_list("checkpoint_count", flat=True)) == [9, 9, 9, *([10] * 6)]
    # Those three may still be being written.
    assert import_location(location).read == 3
    assert hashes_below(many) == before


def entries_of(folder: Path) -> list[Entry]:
    with provider_for(folder) as provider:
        return [item for item in provider.entries() if isinstance(item, Entry)]


def test_the_helper_answers_what_it_was_sent(many: Path) -> None:
    entries = entries_of(many)
    with Helper(many, Limits()) as helper:
        helper.send(entries[:50])
        helper.send(entries[50:])
        answers = [helper.answer(), helper.answer()]
    assert helper.waiting == []
    assert [len(answer.read) + len(answer.faults) for answer in answers] == [50, COUNT - 50]
    assert all(b"CANARY" not in packed.data for answer in answers for packed in answer.read)


def test_where_the_helper_is_killed_nothing_is_lost(many: Path) -> None:
    entries = entries_of(many)
    found: list[Packed | Fault] = []
    with provider_for(many) as provider, Helper(many, Limits()) as helper:
        for result in reader._read_by_two(provider, entries, helper):
            found.append(result)
            if len(found) == 10:
                helper._child.kill()
    assert sorted(
        result.snapshot.key if isinstance(result, Packed) else result.key for result in found
    ) == sorted(entry.key for entry in entries)


@pytest.mark.django_db
def test_the_helper_obeys_the_limits(many: Path, settings: Settings) -> None:
    settings.CHECKPOINT_MOST_BYTES = 1000
    import_location(open_location(many))
    assert Location.objects.get().problems.count() == COUNT
