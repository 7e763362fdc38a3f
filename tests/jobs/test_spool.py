"""The events in a job's folder, which the runner writes and the worker reads."""

import json
from pathlib import Path

import pytest

from viewer.host.jobs.spool import EVENTS, MAX_EVENT_BYTES, MAX_READ_BYTES, MIN_HIDDEN, Spool, read_events


def test_events_are_read_as_written_from_any_offset(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("text", text="é\n", agent="Writer")
    events, offset = read_events(tmp_path, 0)
    assert [(event["seq"], event["kind"], event["data"]["text"]) for event in events] == [(1, "text", "é\n")]
    spool.write("ended", status="succeeded")
    events, end = read_events(tmp_path, offset)
    assert [event["seq"] for event in events] == [2]
    assert read_events(tmp_path, end) == ([], end)


def test_an_incomplete_event_is_left_until_it_is_complete(tmp_path: Path) -> None:
    line = json.dumps({"seq": 1, "at": 1.0, "kind": "text", "data": {}}).encode() + b"\n"
    for cut in range(len(line)):
        (tmp_path / EVENTS).write_bytes(line[:cut])
        assert read_events(tmp_path, 0) == ([], 0)
    (tmp_path / EVENTS).write_bytes(line)
    assert len(read_events(tmp_path, 0)[0]) == 1


def test_secrets_are_hidden_at_any_depth(tmp_path: Path) -> None:
    Spool(tmp_path, hide=["sk-secret-1", "short"]).write(
        "text", a=["is sk-secret-1."], b={"c": "sk-secret-1"}
    )
    data = read_events(tmp_path, 0)[0][0]["data"]
    assert data == {"a": ["is [hidden]."], "b": {"c": "[hidden]"}}


SECRET = "sk-a1b2c3d4e5"


@pytest.mark.parametrize("length", [MIN_HIDDEN, MIN_HIDDEN + 1, len(SECRET) - 1])
def test_the_start_of_a_secret_at_the_end_of_a_text_is_hidden(length: int, tmp_path: Path) -> None:
    Spool(tmp_path, hide=[SECRET]).write("text", text=f"is {SECRET[:length]}")
    assert read_events(tmp_path, 0)[0][0]["data"] == {"text": "is [hidden]"}


def test_a_short_start_of_a_secret_may_be_a_word_and_stays(tmp_path: Path) -> None:
    text = f"is {SECRET[: MIN_HIDDEN - 1]}"
    Spool(tmp_path, hide=[SECRET]).write("text", text=text)
    assert read_events(tmp_path, 0)[0][0]["data"] == {"text": text}


def test_an_event_that_is_too_long_is_replaced(tmp_path: Path) -> None:
    Spool(tmp_path).write("text", text="x" * (2 * MAX_EVENT_BYTES))
    assert (tmp_path / EVENTS).stat().st_size < 1000
    assert "too long" in read_events(tmp_path, 0)[0][0]["data"]["message"]


def test_a_line_longer_than_any_event_is_skipped(tmp_path: Path) -> None:
    good = json.dumps({"seq": 1, "at": 1.0, "kind": "text", "data": {}}).encode()
    (tmp_path / EVENTS).write_bytes(b"x" * (2 * MAX_READ_BYTES) + b"\n" + good + b"\n")
    offset, found = 0, 0
    for _ in range(4):
        events, offset = read_events(tmp_path, offset)
        found += len(events)
    assert found == 1


def test_a_job_without_a_spool_has_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path, 0) == ([], 0)
