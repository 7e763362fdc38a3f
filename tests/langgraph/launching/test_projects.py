"""Projects of LangGraph are found by reading ``langgraph.json`` and source files."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from django.test import Client
from django.urls import reverse

from tests.engine_runs.graphs import PROJECT
from viewer.engines.entry_points import InputName
from viewer.engines.langgraph.project_source import (
    find_entry_points,
    input_names,
    is_entry_point,
    named_entry_points,
    source_folders,
)
from viewer.host.projects import propose_project, read_values, secrets_at
from viewer.models import Location

SUPPORT = Path(__file__).resolve().parents[3] / "demo/support"


def test_the_graphs_of_its_configuration_are_entry_points() -> None:
    assert [point.name for point in find_entry_points(SUPPORT)] == ["support.graph:graph"]
    assert [point.name for point in find_entry_points(PROJECT)][:2] == ["graphs:fan", "graphs:approval"]


def test_the_names_of_its_configuration_lead_to_entry_points() -> None:
    named = named_entry_points(PROJECT)
    assert (named["fan"], named["made"], named["agent"]) == (
        "graphs:fan",
        "graphs:make_graph",
        "agents:agent",
    )


def test_a_location_below_a_configuration_belongs_to_its_project(tmp_path: Path) -> None:
    (tmp_path / "langgraph.json").write_text('{"graphs": {"one": "./agent.py:graph"}}')
    (tmp_path / "agent.py").write_text("graph = 1 / 0")
    proposed = propose_project(tmp_path / "data" / "threads.db", "langgraph")
    assert proposed.folder == tmp_path and proposed.entry_points[0].name == "agent:graph"


def test_what_cannot_be_imported_by_a_name_is_no_entry_point(tmp_path: Path) -> None:
    paths = [
        "./my-agent/agent.py:graph",
        "../other.py:graph",
        "agent:make()",
        7,
        {"path": "./src/a/b.py:make"},
    ]
    graphs = {str(number): path for number, path in enumerate(paths)}
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs}))
    assert [point.name for point in find_entry_points(tmp_path)] == ["a.b:make"]
    assert is_entry_point("a.b:make") and not is_entry_point("crew.jsonc")


def test_a_broken_configuration_has_no_entry_points(tmp_path: Path) -> None:
    for text in ("", "[]", "{", '{"graphs": 3}', "[" * 100_000):
        (tmp_path / "langgraph.json").write_text(text)
        assert find_entry_points(tmp_path) == () and named_entry_points(tmp_path) == {}


def test_the_inputs_are_the_fields_of_the_state() -> None:
    assert input_names(SUPPORT, "support.graph:graph", "graph")[:4] == (
        InputName("messages", list),
        InputName("order", str),
        InputName("topic", str),
        InputName("facts", list),
    )


def test_the_inputs_of_a_state_with_a_base_are_those_of_both(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("class Base:\n    name: str\n")
    source = (
        "from base import Base\nclass State(Base):\n    count: int\n"
        "graph = StateGraph(state_schema=State).compile()\n"
    )
    (tmp_path / "agent.py").write_text(source)
    assert [one.name for one in input_names(tmp_path, "agent:graph", "graph")] == ["name", "count"]
    (tmp_path / "agent.py").write_text("graph = StateGraph(Elsewhere)")
    assert input_names(tmp_path, "agent:graph", "graph") == ()


def test_the_inputs_of_a_package_are_found_in_its_own_modules(tmp_path: Path) -> None:
    package = tmp_path / "agent"
    package.mkdir()
    (package / "state.py").write_text("class State:\n    count: int\n")
    (package / "__init__.py").write_text("from .state import State\ngraph = StateGraph(State).compile()\n")
    assert [one.name for one in input_names(tmp_path, "agent:graph", "graph")] == ["count"]


def test_no_entry_point_leads_out_of_the_folder(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    source = "class State:\n    hidden: int\ngraph = StateGraph(State).compile()\n"
    for outside in ("other.py", "project.py"):
        (tmp_path / outside).write_text(source)
    for module in (f"{tmp_path}/other", f"../{tmp_path}/other", "../other", "", ".", ".."):
        assert input_names(project, f"{module}:graph", "graph") == ()
    (project / "agent.py").write_text(source)
    assert [one.name for one in input_names(project, "agent:graph", "graph")] == ["hidden"]


def test_the_project_page_names_the_engine_of_its_location(
    threads: Callable[[str], Location], admin_client: Client, tmp_path: Path
) -> None:
    for installed in ("crewai-1.15.30", "langgraph-1.2.3"):
        (tmp_path / f".venv/lib/python3.11/site-packages/{installed}.dist-info").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    (tmp_path / "langgraph.json").write_text('{"graphs": {}}')
    page = admin_client.get(reverse("project", args=[threads("lg12").uid]))
    assert "LangGraph 1.2.3" in page.content.decode() and "CrewAI" not in page.content.decode()


def test_the_environment_is_what_the_configuration_names(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "keys.env").write_text("B=2\n")
    location = tmp_path / "data" / "threads.db"
    for env, expected in (
        (None, ".env"),
        ("./keys.env", "keys.env"),
        ("./missing.env", ".env"),
        ({"KEY": "value"}, "langgraph.json"),
        ({}, ".env"),
        (["x"], ".env"),
    ):
        (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {}, "env": env}))
        proposed = propose_project(location, "langgraph")
        assert proposed.environment_file and proposed.environment_file.name == expected, env


def test_variables_in_the_configuration_are_for_the_runner_and_secret(tmp_path: Path) -> None:
    file = tmp_path / "langgraph.json"
    key = "sk-canary0123456789abcdefghij"
    file.write_text(json.dumps({"env": {"OPENAI_API_KEY": key, "RETRIES": 3, "NESTED": {"x": 1}}}))
    assert read_values(str(file)) == {"OPENAI_API_KEY": key, "RETRIES": "3"}
    assert secrets_at(str(file)) == (key,)
    file.write_text('{"env": ".env"}')
    assert read_values(str(file)) == {}


def test_folders_among_the_dependencies_are_sources(tmp_path: Path) -> None:
    for folder in ("project/src", "project/agents/src", "shared"):
        (tmp_path / folder).mkdir(parents=True)
    project = tmp_path / "project"
    named = [".", "./src", "./agents", "../shared", "langchain_openai", "./missing", 3, "\0"]
    (project / "langgraph.json").write_text(json.dumps({"dependencies": named}))
    found = [path.relative_to(tmp_path) for path in source_folders(project)]
    assert [str(path) for path in found] == ["project/agents", "project/agents/src", "shared"]


def test_the_project_page_proposes_the_graphs_and_their_environment(
    threads: Callable[[str], Location], admin_client: Client, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text("graph = 1")
    configuration = {"graphs": {"one": "./agent.py:graph"}, "env": {"API_KEY": "canary-value-0123456789"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(configuration))
    page = admin_client.get(reverse("project", args=[threads("lg12").uid])).content.decode()
    assert 'value="agent:graph"' in page and str(tmp_path / "langgraph.json") in page
    assert "canary-value" not in page


def test_the_inputs_of_functions_and_agents() -> None:
    def names(entry_point: str) -> tuple[InputName, ...]:
        return input_names(PROJECT, entry_point, "graph")

    assert names("functions:write") == (InputName("input", str),)
    assert names("functions:ordered") == (InputName("number", int), InputName("title", str))
    assert names("agents:agent") == (InputName("messages", list),)


def test_a_state_of_messages_has_that_input(tmp_path: Path) -> None:
    source = "class State(MessagesState):\n    topic: str\ngraph = StateGraph(State).compile()\n"
    (tmp_path / "agent.py").write_text(source)
    assert [one.name for one in input_names(tmp_path, "agent:graph", "graph")] == ["messages", "topic"]
    (tmp_path / "agent.py").write_text("graph = StateGraph(MessagesState).compile()")
    assert [one.name for one in input_names(tmp_path, "agent:graph", "graph")] == ["messages"]
