"""A large first import, read by several processes."""

import json
import subprocess
import sys
from collections import deque
from pathlib import Path

import psutil
import pytest
from pytest_django import Settings

from tests.real_stores import hashes_below, one_checkpoint
from viewer.importing import expect_import, import_location, open_location, reader
from viewer.importing.reader import helper_count
from viewer.models import Location
from viewer.providers import helper as helper_module
from viewer.providers import provider_for
from viewer.providers.helper import Turn, end_idle_helpers, helpers_at_hand
from viewer.providers.packing import Packed
from viewer.providers.snapshot import Entry, Fault, Limits

COUNT = 90


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of enough checkpoints for a helper, some of them broken."""
    monkeypatch.setattr(reader, "WORTH_HELPERS", 10)
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
    with helpers_at_hand(1) as (helper,):
        helper.send(Turn(str(many), Limits(), entries[:50]))
        helper.send(Turn(str(many), Limits(), entries[50:]))
        answers = [helper.answer(), helper.answer()]
        assert helper.is_ready()
    assert [len(answer.read) + len(answer.faults) for answer in answers] == [50, COUNT - 50]
    assert all(b"CANARY" not in packed.data for answer in answers for packed in answer.read)


@pytest.mark.parametrize("count", [1, 2])
def test_where_a_helper_is_killed_nothing_is_lost(count: int, many: Path) -> None:
    entries = entries_of(many)
    turns = deque(Turn(str(many), Limits(), entries[at : at + 3]) for at in range(0, COUNT, 3))
    found: list[Packed | Fault] = []
    with provider_for(many) as provider, helpers_at_hand(count) as helpers:
        for result in reader._read_together(provider, turns, helpers):
            found.append(result)
            if len(found) == 10:
                helpers[-1]._child.kill()
    assert sorted(
        result.snapshot.key if isinstance(result, Packed) else result.key for result in found
    ) == sorted(entry.key for entry in entries)


def test_two_helpers_and_this_process_read_everything_once(many: Path) -> None:
    entries = entries_of(many)
    turns = deque(Turn(str(many), Limits(), entries[at : at + 3]) for at in range(0, COUNT, 3))
    with provider_for(many) as provider, helpers_at_hand(2) as helpers:
        assert len({helper.pid for helper in helpers}) == 2
        found = list(reader._read_together(provider, turns, helpers))
        assert all(helper.is_ready() for helper in helpers)
    assert sorted(result.key for result in found) == sorted(entry.key for entry in entries)


def test_the_next_import_has_the_same_helper_unless_it_died_or_owes_an_answer(many: Path) -> None:
    turn = Turn(str(many), Limits(), entries_of(many)[:3])
    end_idle_helpers()
    with helpers_at_hand(1) as (first,):
        first.send(turn)
        first.answer()
    with helpers_at_hand(1) as (second,), helpers_at_hand(1) as (beside,):
        assert second is first
        assert beside.pid != first.pid
        second.send(turn)
    assert first._child.poll() is not None
    with helpers_at_hand(1) as (third,):
        third._child.kill()
        third._child.wait()
    with helpers_at_hand(1) as (fourth,):
        assert fourth.is_ready()


def test_a_helper_that_was_started_ahead_is_the_one_that_reads(many: Path) -> None:
    end_idle_helpers()
    expect_import()
    expect_import()
    waiting = list(helper_module._idle)
    assert len(waiting) == helper_count()
    with helpers_at_hand(1) as (helper,):
        assert helper in waiting
        helper.send(Turn(str(many), Limits(), entries_of(many)[:3]))
        assert len(helper.answer().read) == 3


def test_an_idle_helper_ends_with_the_process_that_had_it() -> None:
    code = (
        "from viewer.providers.helper import helpers_at_hand\nwith helpers_at_hand(1) as (h,): print(h.pid)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not psutil.pid_exists(int(ended.stdout))
    assert ended.stderr == ""


@pytest.mark.django_db
def test_the_helper_obeys_the_limits(many: Path, settings: Settings) -> None:
    settings.CHECKPOINT_MOST_BYTES = 1000
    import_location(open_location(many))
    assert Location.objects.get().problems.count() == COUNT
