"""Values of channels that a checkpoint stores only as changes are rebuilt without the graph's code."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.test import Client

from tests.engine_runs.graphs import PROJECT, STORE, WarmGraphs, run_program
from tests.langgraph.conftest import opened
from viewer.engines.langgraph.contents import Contents
from viewer.importing import import_location, open_location, stored_contents
from viewer.models import Location, Run

Threads = Callable[[str], Location]
PROGRAM = PROJECT / "changes.py"


def assert_as_langgraph_has_them(run: Run, printed: str) -> None:
    """Assert that each checkpoint has the values that LangGraph has printed."""
    expected = json.loads(printed.splitlines()[-1])
    found = contents_by_id(run)
    assert found.keys() == expected.keys() and len(found) == 7
    hows = set()
    for name, contents in found.items():
        messages = [one["fields"] for one in contents.channels.get("messages", [])]
        assert [[one["id"], one["content"]] for one in messages] == expected[name]["messages"]
        assert contents.channels.get("notes", []) == expected[name].get("notes", [])
        hows |= {(channel, one.how) for channel, one in contents.changed_channels.items()}
    assert {("messages", "messages"), ("notes", "list"), ("counts", "")} <= hows
    # What only the graph's code makes stays unknown, with what is known of it.
    last = contents.changed_channels["counts"]
    assert "counts" not in contents.channels and last.writes == ({"a": 1}, {"a": 2, "d": 1})


def contents_by_id(run: Run) -> dict[str, Any]:
    rows = run.checkpoints.select_related("location").order_by("row")
    return {row.checkpoint_id: stored_contents(row) for row in rows}


def test_the_values_are_those_that_langgraph_has(
    db: None, warm_langgraph: WarmGraphs, tmp_path: Path
) -> None:
    printed = run_program(warm_langgraph.engine, tmp_path, PROGRAM, str(tmp_path / STORE))
    location = open_location(tmp_path / STORE)
    import_location(location)
    assert_as_langgraph_has_them(opened(location, "changes"), printed)


def test_a_recorded_channel_is_rebuilt_between_its_snapshots(threads: Threads) -> None:
    found = [
        one.channels.get("notes", [])
        for one in contents_by_id(opened(threads("lg12_delta"), "delta")).values()
    ]
    # The second turn begins with what the first one left.
    assert [len(one) for one in found] == [0, 0, 1, 2, 3, 3, 3, 4, 5, 6]
    assert found[8] == ["start on cats", "middle on cats", "end on cats", "start on dogs", "middle on dogs"]


def test_the_state_shows_how_a_value_was_rebuilt(threads: Threads, reader: Client) -> None:
    rows = list(opened(threads("lg12_delta"), "delta").checkpoints.order_by("row"))
    page = reader.get(f"{rows[3].get_absolute_url()}&tab=state").content.decode()
    assert "Rebuilt from 2 stored changes, as a reducer that appends does." in page
    assert "middle on cats" in page
    snapshot = reader.get(f"{rows[4].get_absolute_url()}&tab=state").content.decode()
    assert "Rebuilt from" not in snapshot and "DeltaSnapshot" not in snapshot and "end on cats" in snapshot


def body(**changes: Any) -> Mapping[str, Any]:
    return {"checkpoint_id": "1", "checkpoint": {"channel_values": {}}, "changes": changes}


def test_what_is_not_whole_or_not_known_is_not_rebuilt() -> None:
    contents = Contents(
        body(
            missing={"writes": [["a"]], "is_whole": False},
            opaque={"base": {"__opaque__": "pickled", "size": 3}, "writes": [["a"]], "is_whole": True},
            mixed={"base": ["a"], "writes": ["b"], "is_whole": True},
            replaced={"writes": [["a"], {"__overwrite__": ["b"]}, ["c"]], "is_whole": False},
            odd=3,
        )
    )
    assert contents.channels == {"replaced": ["b", "c"]}
    assert contents.changed_channels.keys() == {"missing", "opaque", "mixed", "replaced"}
    assert contents.changed_channels["opaque"].writes == (["a"],)
