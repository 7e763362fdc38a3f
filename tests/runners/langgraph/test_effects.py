"""Whatever a LangGraph checkpoint names is an effect: nothing is executed before consent."""

import json
import pickle
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forkline_langgraph.checkpoints import LoadedValue
from forkline_langgraph.effects import Loadable, UnreadableValue, named_in
from forkline_runner.effects import shortened_text
from tests.engine_runs.graphs import PROJECT, Graphs

CRAFT = """
import json, ormsgpack, sqlite3, sys
store, code, parts = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
evil = ormsgpack.Ext(code, ormsgpack.packb(parts))
connection = sqlite3.connect(store)
for rowid, data in connection.execute("SELECT rowid, checkpoint FROM checkpoints").fetchall():
    saved = ormsgpack.unpackb(data, ext_hook=lambda code, data: ormsgpack.Ext(code, data))
    saved["channel_values"]["topic"] = evil
    packed = ormsgpack.packb(saved)
    connection.execute("UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (packed, rowid))
connection.commit()
"""


def craft(graphs: Graphs, module: str, name: str, argument: Any, *more: str, code: int = 0) -> None:
    """Make every checkpoint call a function when the engine loads it."""
    parts = json.dumps([module, name, argument, *more])
    subprocess.run([graphs.python, "-c", CRAFT, graphs.store, str(code), parts], check=True, timeout=60)


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


HANDLER = ("langchain_core.callbacks.file", "FileCallbackHandler")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_a_class_of_the_engine_that_does_more_than_hold_data_needs_consent(
    graphs: Graphs, tmp_path: Path, code: int
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    arguments = {0: str(tmp_path / "new"), 1: [str(kept), "w"], 3: str(kept)}
    more = {3: ["from_file"], 5: ["model_validate_json"]}.get(code, [])
    craft(graphs, *HANDLER, arguments.get(code, {"filename": str(kept), "mode": "w"}), *more, code=code)
    for kind, at in (("fork", 2), ("resume", -1)):
        ended = graphs.run(graphs.request(kind, "fan", "failed", at))
        assert "nobody has accepted" in ended.end["error"] and HANDLER[1] in ended.end["error"]
    assert kept.read_text() == "kept" and not (tmp_path / "new").exists()


def test_what_was_accepted_with_some_arguments_is_not_with_others(graphs: Graphs, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.write_text("kept")
    request = graphs.request("fork", "fan", "fan", 2)
    craft(graphs, *HANDLER, [str(first), "a"], code=1)
    (effect,) = findings(graphs, {**request, "kind": "preflight"})["effects"]
    assert effect["kind"] == "module" and str(first) in effect["detail"]
    accepted = {"accepted_effects": [effect["key"]]}
    craft(graphs, *HANDLER, [str(second), "w"], code=1)
    assert "nobody has accepted" in graphs.run(request | accepted).end["error"]
    assert second.read_text() == "kept"
    craft(graphs, *HANDLER, [str(first), "a"], code=1)
    report = findings(graphs, {**request, "kind": "preflight"} | accepted)
    assert report["is_complete"] and first.exists()


def test_an_installed_class_that_the_project_imports_needs_consent(graphs: Graphs, tmp_path: Path) -> None:
    project = shutil.copytree(PROJECT, tmp_path / "project")
    source = (project / "graphs.py").read_text()
    (project / "graphs.py").write_text(
        "from langchain_core.callbacks.file import FileCallbackHandler\n"
        "from http import HTTPMethod\nfrom httpx import Client\nimport httpx._client\n" + source
    )
    request = graphs.request("preflight", "fan", "fan", 2) | {"folder": str(project)}
    for module, name in (HANDLER, ("httpx._client", "Client")):
        craft(graphs, module, name, str(tmp_path / "called"))
        assert [one["name"] for one in findings(graphs, request)["effects"]] == [f"{module}.{name}"]
    assert not (tmp_path / "called").exists()
    # A class of the project's own source needs none.
    craft(graphs, "graphs", "Ticket", {"number": 1, "title": "x"}, code=2)
    assert findings(graphs, request)["effects"] == []


OWN = """
from langchain_core.callbacks.file import FileCallbackHandler
class Log(FileCallbackHandler):
    pass
class Sink:
    def __init__(self, path, mode="w"):
        open(path, mode).close()
"""


@pytest.mark.parametrize("name", ["Log", "Sink"])
@pytest.mark.parametrize("code", [0, 1, 2, 5])
def test_a_class_of_the_project_that_does_more_than_hold_data_needs_consent(
    graphs: Graphs, tmp_path: Path, code: int, name: str
) -> None:
    project = shutil.copytree(PROJECT, tmp_path / "project")
    (project / "graphs.py").write_text((project / "graphs.py").read_text() + OWN)
    kept = tmp_path / "kept"
    kept.write_text("kept")
    key = "filename" if name == "Log" else "path"
    craft(graphs, "graphs", name, {0: str(kept), 1: [str(kept), "w"]}.get(code, {key: str(kept)}), code=code)
    request = graphs.request("fork", "fan", "fan", 2) | {"folder": str(project)}
    assert [one["name"] for one in findings(graphs, request | {"kind": "preflight"})["effects"]] == [
        f"graphs.{name}"
    ]
    assert "nobody has accepted" in graphs.run(request).end["error"]
    assert kept.read_text() == "kept"


ID_LISTS: tuple[Any, ...] = (
    {"os": 1, "system": 2},
    "os",
    {"lc": 2, "type": "constructor", "id": ["collections", "deque"], "args": [["os", "system"]]},
    ["os", {"lc": 2, "type": "constructor", "id": ["builtins", "set"], "args": [["system"]]}],
    [],
)


@pytest.mark.parametrize("identifier", ID_LISTS)
@pytest.mark.parametrize("lc", [1, 2, 2.0, True])
def test_json_whose_id_the_engine_would_unpack_is_unreadable(identifier: Any, lc: Any) -> None:
    data = json.dumps([{"deep": {"lc": lc, "type": "constructor", "id": identifier, "args": ["touch x"]}}])
    with pytest.raises(UnreadableValue):
        named_in("json", data.encode())


def test_json_of_another_meaning_is_read() -> None:
    value = {"lc": 3, "id": {"a": 1}, "inner": [{"lc": 2, "id": None}, {"id": "x"}]}
    assert named_in("json", json.dumps(value).encode()) == set()
    old = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "AIMessage"],
        "kwargs": {},
    }
    assert [str(one) for one in named_in("json", json.dumps(old).encode())] == [
        "langchain_core.messages.ai.AIMessage"
    ]
    # The engine itself imports what it is given.
    own = json.dumps(old | {"lc": 2}).encode()
    assert [str(one) for one in named_in("json", own)] == ["langchain.schema.messages.AIMessage"]


@pytest.mark.parametrize(("zone", "count"), [("Europe/Berlin", 0), ("UTC", 0), ("../etc/x", 1), ("a.b", 1)])
def test_a_time_zone_is_data_only_by_its_name(zone: str, count: int) -> None:
    data = json.dumps({"lc": 2, "type": "constructor", "id": ["zoneinfo", "ZoneInfo"], "args": [zone]})
    loadable = Loadable({"entry_point": "", "entry_points": []})  # type: ignore[typeddict-item]
    assert len(loadable.effects_in([LoadedValue("json", data.encode(), "x")])) == count


def test_the_arguments_are_shown_without_secrets_and_shortened() -> None:
    kwargs = {"api_key": "hidden-value", "path": "/srv/" + "x" * 900 + "/end", "many": list(range(50))}
    data = json.dumps({"lc": 2, "type": "constructor", "id": ["vendor", "Client"], "kwargs": kwargs})
    (named,) = named_in("json", data.encode())
    assert "hidden-value" not in named.arguments and "/srv/xxx" in named.arguments
    assert "/end" in named.arguments and "(50)" in named.arguments and len(named.arguments) < 400
    data = json.dumps({"lc": 2, "type": "constructor", "id": ["pydantic", "SecretStr"], "args": ["hidden"]})
    (named,) = named_in("json", data.encode())
    assert named.arguments == "[redacted]"


def test_a_shortened_value_has_no_part_of_a_key() -> None:
    key = "k7" + "A1b2C3d4" * 20
    for before in (0, 50, 100, 130, 200):
        for after in (0, 20, 55, 100, 200):
            text = f"{'word ' * (before // 5)}token={key} {'more ' * (after // 5)}"
            shown = shortened_text(text).replace(key, "")
            assert "A1b2" not in shown and len(shown) < 250
            assert before < 50 or shown.startswith("word word")
            assert after < 100 or shown.endswith("more more ")


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
