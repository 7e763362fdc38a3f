"""Crews and flows that files declare are found, named and searched for inputs without running anything."""

import json
import time
from pathlib import Path

import pytest

from tests.engine_runs.runs import DESK, LINE
from viewer.engines.crewai import entry_points
from viewer.engines.crewai.entry_points import (
    FILE,
    entry_point_for,
    entry_point_kinds,
    find_entry_points,
    is_entry_point,
    parse_jsonc,
    read_definition,
    title_of,
)
from viewer.engines.crewai.flow_plan import flow_methods
from viewer.engines.crewai.input_names import input_names
from viewer.engines.entry_points import EntryPoint, InputName

CREW = '{"name": "papers", "agents": ["a"], "tasks": [{"description": "Write {topic}"}]}'
FLOW = "schema: crewai.flow/v1\nname: River\nmethods:\n  go:\n    start: true\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(folder: Path) -> list[tuple[str, str]]:
    return [(point.name, point.kind) for point in find_entry_points(folder)]


def test_the_file_named_by_the_project_is_its_entry_point() -> None:
    assert find_entry_points(DESK) == (EntryPoint("crew.jsonc", "crew"),)
    assert [point.name for point in find_entry_points(LINE)] == [
        "src/line/flow.yaml",
        "line.steps:make_flow",
    ]
    assert {point.kind for point in find_entry_points(LINE)} == {"flow"}
    assert entry_point_kinds(LINE, ["src/line/flow.yaml"]) == {"src/line/flow.yaml": "flow"}


def test_crews_are_found_by_name_and_flows_by_schema_in_any_folder(tmp_path: Path) -> None:
    write(tmp_path / "crews" / "one" / "crew.json", CREW)
    write(tmp_path / "other.json", CREW)
    write(tmp_path / "flows" / "river.yml", FLOW)
    write(tmp_path / "config" / "tasks.yaml", "methods: {}\n")
    write(tmp_path / "crew.jsonc", '{"agents": []}')
    assert found(tmp_path) == [("crews/one/crew.json", "crew"), ("flows/river.yml", "flow")]
    write(tmp_path / "pyproject.toml", '[tool.crewai]\ntype = "crew"\ndefinition = "./other.json"\n')
    assert found(tmp_path)[0] == ("other.json", "crew")


def test_functions_that_return_a_flow_are_found(tmp_path: Path) -> None:
    write(
        tmp_path / "a.py",
        "from crewai import Flow\n"
        "class A(Flow): pass\n"
        "def named() -> A: ...\n"
        "def plain():\n    return A()\n"
        "def declared():\n    return Flow.from_declaration(path='flow.yaml')\n"
        "def needs(x): return A()\n",
    )
    assert found(tmp_path) == [
        ("a:A", "flow"),
        ("a:named", "flow"),
        ("a:plain", "flow"),
        ("a:declared", "flow"),
    ]


def test_a_checkpoint_is_matched_with_its_file_by_name(tmp_path: Path) -> None:
    write(tmp_path / "crew.jsonc", CREW)
    write(tmp_path / "b" / "crew.jsonc", CREW.replace("papers", "other"))
    write(tmp_path / "flow.yaml", FLOW)
    points = [name for name, _ in found(tmp_path)]
    assert entry_point_for(tmp_path, points, "crew", "papers") == "crew.jsonc"
    assert entry_point_for(tmp_path, points, "crew", "gone") == ""
    assert entry_point_for(tmp_path, points, "flow", "River") == "flow.yaml"
    assert entry_point_for(tmp_path, points, "flow", "Lake") == ""
    assert (title_of("crew.jsonc"), title_of("a.b:C")) == ("crew.jsonc", "C")


def test_inputs_and_defaults_are_read_from_the_file() -> None:
    assert input_names(DESK, "crew.jsonc", "crew") == (
        InputName("audience"),
        InputName("since"),
        InputName("topic", str, "AI", True),
        InputName("year", int, 2026, True),
    )
    assert input_names(LINE, "src/line/flow.yaml", "flow") == (
        InputName("topic", str, "AI", True),
        InputName("year", int, 2026, True),
    )


def test_a_declared_state_may_be_a_schema_or_a_class_of_the_project(tmp_path: Path) -> None:
    schema = {"properties": {"topic": {"type": "string"}, "count": {"type": "integer", "default": 3}}}
    state = {"type": "json_schema", "json_schema": schema, "default": {"topic": "AI"}}
    body = {"schema": "crewai.flow/v1", "methods": {"go": {"do": {"expr": "state.extra"}}}}
    write(tmp_path / "flow.json", json.dumps({**body, "state": state}))
    assert input_names(tmp_path, "flow.json", "flow") == (
        InputName("extra"),
        InputName("topic", str, "AI", True),
        InputName("count", int, 3, True),
    )
    write(
        tmp_path / "states.py", "class S(BaseModel):\n    id: str = ''\n    topic: str\n    year: int = 5\n"
    )
    write(
        tmp_path / "flow.json",
        json.dumps({**body, "state": {"type": "pydantic", "ref": "states:S", "default": {"topic": "tea"}}}),
    )
    assert input_names(tmp_path, "flow.json", "flow") == (
        InputName("extra"),
        InputName("topic", str, "tea", True),
        InputName("year", int, 5, True),
    )


def test_jsonc_is_json_with_comments_and_trailing_commas() -> None:
    text = '{ // one\n "a": "// no comment, ] and \\" ,}", /* two\n */ "b": [1, 2, /* , */ ], }'
    assert parse_jsonc(text) == {"a": '// no comment, ] and " ,}', "b": [1, 2]}
    for wrong in ('{"a": 1,, }', "{", '{"a": /* open', '{"a": "open}'):
        with pytest.raises(json.JSONDecodeError):
            parse_jsonc(wrong)


@pytest.mark.parametrize("name", ["../crew.jsonc", "/etc/crew.jsonc", ".hidden/crew.jsonc", "a/../crew.json"])
def test_a_file_outside_the_project_is_no_entry_point(tmp_path: Path, name: str) -> None:
    write(tmp_path / "crew.jsonc", CREW)
    project = tmp_path / "project"
    project.mkdir()
    (project / "linked").symlink_to(tmp_path)
    (project / "crew.jsonc").symlink_to(tmp_path / "crew.jsonc")
    write(project / "pyproject.toml", f'[tool.crewai]\ntype = "crew"\ndefinition = "{name}"\n')
    assert FILE.fullmatch(name) is None
    assert not is_entry_point(name)
    assert read_definition(project, name) == {}
    assert read_definition(project, "linked/crew.jsonc") == {}
    assert found(project) == []


@pytest.mark.parametrize("name", ["crew.jsonc", "src/a-b/flow.yaml", "a.b:C", "crews/one two/crew.json"])
def test_files_and_names_can_be_typed_as_entry_points(name: str) -> None:
    assert is_entry_point(name)


@pytest.mark.parametrize(
    "text",
    [
        "methods: [" * 20_000,
        "schema: crewai.flow/v1\nmethods: &a {b: *a}\nstate: *a",
        "schema: crewai.flow/v1\nmethods: {}\nstate: !!python/object/apply:os.system ['touch ran']",
        "schema: crewai.flow/v1\nmethods: {[]: 1}",
        "a: &a [x,x]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)},*{chr(97 + n)}]\n" for n in range(20)),
        "schema: crewai.flow/v1\nmethods: 2026-99-99",
        "schema: crewai.flow/v1\nmethods: {}\nstate: !!bool maybe",
        "schema: crewai.flow/v1\nmethods: {}\nstate: !!int ''",
        "schema: crewai.flow/v1\nmethods:\n  a: {start: true}\n  b: {listen: &x {or: [*x, *x, *x, *x]}}",
        "\0",
    ],
)
def test_a_hostile_file_declares_nothing_and_is_read_quickly(tmp_path: Path, text: str) -> None:
    write(tmp_path / "flow.yaml", text)
    began = time.thread_time()
    for name, kind in found(tmp_path):
        input_names(tmp_path, name, kind)
        flow_methods(tmp_path, name)
    assert time.thread_time() - began < 5
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ['"', "/*", "//", ",", "[", '{"a":"\\', '\\"', ", \n"])
def test_hostile_jsonc_is_read_in_linear_time(text: str) -> None:
    began = time.thread_time()
    with pytest.raises((ValueError, RecursionError)):
        parse_jsonc(text * (entry_points.MAX_DEFINITION_BYTES // len(text)))
    assert time.thread_time() - began < 2


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "crew.jsonc", CREW)
    assert found(tmp_path)
    monkeypatch.setattr(entry_points, "MAX_DEFINITION_BYTES", 20)
    assert found(tmp_path) == []
