"""Values of channels that a checkpoint stores only as changes are rebuilt without the graph's code."""

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.test import Client

from tests.engine_runs.graphs import PROJECT, STORE, WarmGraphs, run_program
from tests.langgraph.conftest import opened
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.super_steps import nodes_that_ran
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Location, Run
from viewer.records.bodies import stored_contents

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


BUMPED = """
import json, sqlite3
from langgraph.channels import EphemeralValue, LastValue
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.pregel import NodeBuilder, Pregel

def appended(value, writes):
    return [*(value or []), *writes]

def both(value):
    return {"notes": value, "c0": value}

first = NodeBuilder().subscribe_only("a").do(both)
steps = {"first": first.write_to(notes=lambda made: made["notes"], c0=lambda made: made["c0"])}
steps["watch"] = NodeBuilder().subscribe_only("notes").do(len).write_to("seen")
for one in range(6):
    steps[f"s{one}"] = NodeBuilder().subscribe_only(f"c{one}").do(lambda value: value).write_to(f"c{one + 1}")
channels = {name: EphemeralValue(str) for name in ("a", *(f"c{one}" for one in range(7)))}
channels |= {"notes": DeltaChannel(appended), "seen": LastValue(int)}
saver = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))
graph = Pregel(
    nodes=steps, channels=channels, input_channels="a", output_channels="seen", checkpointer=saver
)
config = {"configurable": {"thread_id": "bumped"}}
graph.invoke("x", config)
found = sorted(saver.list(config), key=lambda one: one.metadata["step"])
print(json.dumps([{"versions_seen": one.checkpoint["versions_seen"]} for one in found]))
"""


def test_a_snapshot_of_a_channel_is_no_work_of_a_node(db: None, graph_python: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import sys\n{BUMPED}")
    rare = {"LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT": "2"}
    # Read when the engine is imported.
    printed = run_program(graph_python, tmp_path, program, str(tmp_path / STORE), **rare)
    found = json.loads(printed.splitlines()[-1])
    assert "__snapshot_bumps__" in found[-1]["versions_seen"]
    ran = [nodes_that_ran(before, after) for before, after in pairwise(found)]
    assert ran == [["first"], ["s0", "watch"], *([f"s{one}"] for one in range(1, 6))]
    location = open_location(tmp_path / STORE)
    import_location(location)
    rows = opened(location, "bumped").checkpoints.order_by("row")
    assert [[name for name, _status in row.units] for row in rows][1:] == ran


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
