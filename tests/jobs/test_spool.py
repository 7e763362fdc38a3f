"""The lines that two processes share."""

import json
from pathlib import Path

from viewer.jobs.spool import EVENTS, MAX_EVENT_BYTES, MAX_READ_BYTES, Spool, read_events


def test_lines_are_read_as_they_were_written_and_go_on_from_where_one_stood(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("text", text="é\n", agent="Writer")
    lines, offset = read_events(tmp_path, 0)
    assert [(line["seq"], line["kind"], line["data"]["text"]) for line in lines] == [(1, "text", "é\n")]
    spool.write("ended", status="succeeded")
    lines, end = read_events(tmp_path, offset)
    assert [line["seq"] for line in lines] == [2]
    assert read_events(tmp_path, end) == ([], end)


def test_half_a_line_is_left_until_it_is_whole(tmp_path: Path) -> None:
    line = json.dumps({"seq": 1, "at": 1.0, "kind": "text", "data": {}}).encode() + b"\n"
    for cut in range(len(line)):
        (tmp_path / EVENTS).write_bytes(line[:cut])
        assert read_events(tmp_path, 0) == ([], 0)
    (tmp_path / EVENTS).write_bytes(line)
    assert len(read_events(tmp_path, 0)[0]) == 1


def test_what_hides_is_hidden_at_any_depth(tmp_path: Path) -> None:
    Spool(tmp_path, hide=["sk-secret-1", "short"]).write(
        "text", a=["is sk-secret-1."], b={"c": "sk-secret-1"}
    )
    data = read_events(tmp_path, 0)[0][0]["data"]
    assert data == {"a": ["is [hidden]."], "b": {"c": "[hidden]"}}


def test_a_line_that_is_too_long_says_so(tmp_path: Path) -> None:
    Spool(tmp_path).write("text", text="x" * (2 * MAX_EVENT_BYTES))
    assert (tmp_path / EVENTS).stat().st_size < 1000
    assert "too long" in read_events(tmp_path, 0)[0][0]["data"]["message"]


def test_a_foreign_line_without_an_end_is_passed_over(tmp_path: Path) -> None:
    good = json.dumps({"seq": 1, "at": 1.0, "kind": "text", "data": {}}).encode()
    (tmp_path / EVENTS).write_bytes(b"x" * (2 * MAX_READ_BYTES) + b"\n" + good + b"\n")
    offset, found = 0, 0
    for _ in range(4):
        lines, offset = read_events(tmp_path, offset)
        found += len(lines)
    assert found == 1


def test_a_job_that_has_written_nothing_has_no_lines(tmp_path: Path) -> None:
    assert read_events(tmp_path, 0) == ([], 0)
