"""Whatever a LangGraph checkpoint names is an effect: nothing is executed before consent."""

import json
import pickle
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.graphs import Graphs

CRAFT = """
import ormsgpack, sqlite3, sys
store, module, name, argument = sys.argv[1:5]
evil = ormsgpack.Ext(0, ormsgpack.packb((module, name, argument)))
connection = sqlite3.connect(store)
for rowid, data in connection.execute("SELECT rowid, checkpoint FROM checkpoints").fetchall():
    saved = ormsgpack.unpackb(data, ext_hook=lambda code, data: ormsgpack.Ext(code, data))
    saved["channel_values"]["topic"] = evil
    packed = ormsgpack.packb(saved)
    connection.execute("UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (packed, rowid))
connection.commit()
"""


def craft(graphs: Graphs, module: str, name: str, argument: str) -> None:
    """Make every checkpoint call a function when the engine loads it."""
    subprocess.run([graphs.python, "-c", CRAFT, graphs.store, module, name, argument], check=True, timeout=60)


def findings(graphs: Graphs, request: dict[str, Any]) -> dict[str, Any]:
    (found,) = graphs.run(request).of("preflight")
    report: dict[str, Any] = found["report"]
    return report


def test_classes_of_the_engine_and_the_project_need_no_agreement(graphs: Graphs) -> None:
    report = findings(graphs, graphs.request("preflight", "fan", "fan", 2))
    assert report["effects"] == [] and report["is_complete"]
    assert report["next"] == ["left", "right"] and report["nodes"] == ["start", "left", "right", "end"]
    channels = {one["name"]: (one["type"], one["reducer"]) for one in report["channels"]}
    assert channels == {
        "topic": ("string", ""),
        "ticket": ("", ""),
        "notes": ("array", "operator.add"),
        "decision": ("string", ""),
    }
    assert report["nodes"] == ["start", "left", "right", "end"]
    assert graphs.nodes() == []


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("graphs", "ran"), ("langgraph.types", "interrupt")]
)
def test_a_function_that_a_value_names_is_not_called(
    graphs: Graphs, tmp_path: Path, module: str, name: str
) -> None:
    craft(graphs, module, name, f"touch {tmp_path / 'called'}")
    report = findings(graphs, graphs.request("preflight", "fan", "fan", 2))
    assert name in report["effects"][0]["name"] and not report["is_complete"]
    assert report["imports"] == []
    for kind, at in (("fork", 2), ("resume", -1)):
        ended = graphs.run(graphs.request(kind, "fan", "failed", at))
        assert "nobody has accepted" in ended.end["error"]
    assert graphs.nodes() == [] and not (tmp_path / "called").exists()


def test_an_accepted_effect_is_loaded(graphs: Graphs) -> None:
    craft(graphs, "http", "HTTPMethod", "GET")
    request = graphs.request("fork", "fan", "fan", 2)
    (effect,) = findings(graphs, {**request, "kind": "preflight"})["effects"]
    ended = graphs.run({**request, "accepted_effects": [effect["key"]]})
    assert json.loads(ended.end["result"])["notes"][-1] == "end on GET"


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def test_a_pickled_value_is_not_loaded(graphs: Graphs, tmp_path: Path) -> None:
    with sqlite3.connect(graphs.store) as connection:
        data = pickle.dumps(Evil(tmp_path / "called"))
        connection.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", (data,))
    request = graphs.request("fork", "fan", "fan", 2)
    (effect,) = findings(graphs, {**request, "kind": "preflight"})["effects"]
    assert (effect["kind"], effect["name"]) == ("command", "pickle")
    assert "nobody has accepted" in graphs.run(request).end["error"]
    assert not (tmp_path / "called").exists()


def test_an_encrypted_value_is_refused(graphs: Graphs) -> None:
    with sqlite3.connect(graphs.store) as connection:
        connection.execute("UPDATE checkpoints SET type = 'msgpack+aes'")
    assert "is encrypted" in graphs.run(graphs.request("fork", "fan", "fan", 2)).end["error"]
