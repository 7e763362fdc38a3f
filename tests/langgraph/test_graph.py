"""The graph of a thread: as the project's code defines it, with what ran; inferred without a project."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.langgraph.conftest import opened
from tests.terminal import Terminal
from viewer.cli.commands.checkpoints import dot_lines, graph_lines
from viewer.host.jobs.preflight import preflight_new_run
from viewer.messages.message import UserMessage
from viewer.models import Location, PreflightCheck, Project, Run
from viewer.presentation.run.graph import UnitGraph, plain_graph_of, unit_graph_of, unit_statuses

CODE: dict[str, Any] = {
    "nodes": ["__start__", "split", "sub/ask", "sub/sum", "join", "__end__"],
    "edges": [
        ["__start__", "split", False, ""],
        ["split", "sub/ask", False, ""],
        ["sub/ask", "sub/sum", True, "enough"],
        ["sub/sum", "join", False, ""],
        ["join", "__end__", False, ""],
    ],
}


def drawn(run: Run, compiled: dict[str, Any] | None = None) -> UnitGraph:
    """The graph as of the run's newest checkpoint."""
    graph = unit_graph_of(run, run.checkpoints.latest("row"), compiled)
    assert graph is not None
    return graph


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "agent").mkdir()
    return Project.objects.create(
        folder=str(tmp_path / "agent"),
        interpreter="/usr/bin/python3",
        entry_points=["agent:graph"],
        confirmed_at=timezone.now(),
    )


def checked(project: Project, location: Location, **values: Any) -> PreflightCheck:
    """A check of the project's code, with this result."""
    unsaved = preflight_new_run(project, "agent:graph", "graph", location.store_kind, only_stored=True)
    for name, value in ({"status": PreflightCheck.Status.DONE} | values).items():
        setattr(unsaved, name, value)
    unsaved.save()
    return unsaved


def test_without_a_project_the_graph_is_inferred(threads: Callable[[str], Location], reader: Client) -> None:
    run = opened(threads("lg12"), "appr-done")
    assert drawn(run).is_inferred
    page = reader.get(run.get_absolute_url(), {"tab": "graph"}).content.decode()
    assert "Inferred from the checkpoints" in page and "Show the code" not in page


def test_the_codes_graph_shows_what_ran_what_is_next_and_conditional_edges(
    threads: Callable[[str], Location],
) -> None:
    run = opened(threads("lg12"), "map-sub-waiting")
    statuses = unit_statuses(run, run.checkpoints.latest("row"))
    inner = {name for name in statuses if "/" in name}
    assert inner and any(status == "waiting" for status in statuses.values())
    graph = drawn(run, CODE)
    assert not graph.is_inferred and graph.has_conditions
    assert {unit.name for unit in graph.units} >= {"start", "end", "split", "ask"}
    (frame, *_others) = graph.frames
    assert frame.frame.title == "sub"
    inside = next(unit for unit in graph.units if unit.name == "ask")
    assert frame.frame.x < inside.x < frame.frame.x + frame.frame.width
    assert frame.frame.y < inside.y < frame.frame.y + frame.frame.height


def test_a_node_that_the_code_no_longer_has_is_drawn_as_recorded(
    threads: Callable[[str], Location],
) -> None:
    run = opened(threads("lg12"), "appr-done")
    compiled = {"nodes": ["__start__", "new"], "edges": [["__start__", "new", False, ""]]}
    graph = drawn(run, compiled)
    assert graph.has_unknown and not graph.is_inferred
    assert {unit.name for unit in graph.units} > {"start", "new"}


def test_only_who_can_run_may_have_the_code_asked(
    threads: Callable[[str], Location], project: Project, reader: Client, admin_client: Client
) -> None:
    location = threads("lg12")
    Location.objects.update(project=project)
    run = opened(location, "appr-done")
    ask = reverse("checkpoint-graph", args=[run.checkpoints.latest("row").pk])
    page = reader.get(run.get_absolute_url(), {"tab": "graph"}).content.decode()
    assert ask not in page and reader.post(ask).status_code == 403
    assert not PreflightCheck.objects.exists()
    # A link from elsewhere starts nothing; a page of ours does.
    for site, starts in (("none", False), ("cross-site", False), ("same-origin", True)):
        headers = {"Sec-Fetch-Site": site}
        page = admin_client.get(f"{run.get_absolute_url()}?tab=graph", headers=headers).content.decode()
        assert ask in page and ("submit, load" in page) is starts
    assert not PreflightCheck.objects.exists()


def test_a_stored_answer_is_shown_to_everyone_until_the_source_changes(
    threads: Callable[[str], Location], project: Project, reader: Client
) -> None:
    location = threads("lg12")
    Location.objects.update(project=project)
    run = opened(location, "appr-done")
    checked(project, location, report={"graph": CODE})
    page = reader.get(run.get_absolute_url(), {"tab": "graph"}).content.decode()
    assert "agent:graph" in page and ">split<" in page
    (Path(project.folder) / "agent.py").write_text("graph = 1")
    page = reader.get(run.get_absolute_url(), {"tab": "graph"}).content.decode()
    assert "Inferred from the checkpoints" in page and ">split<" not in page


@pytest.mark.parametrize(
    "values",
    [
        {"report": {"blocks": [UserMessage("langgraph.nothing_waits").as_data()]}},
        {"report": {"graph": {}}},
        {"status": PreflightCheck.Status.FAILED, "error": UserMessage("preflight.internal_error")},
    ],
)
def test_code_that_cannot_say_leaves_the_inferred_graph(
    threads: Callable[[str], Location], project: Project, reader: Client, values: dict[str, Any]
) -> None:
    location = threads("lg12")
    Location.objects.update(project=project)
    run = opened(location, "appr-done")
    checked(project, location, **values)
    page = reader.get(run.get_absolute_url(), {"tab": "graph"}).content.decode()
    assert "Inferred from the checkpoints" in page and "cannot be asked for its graph" in page


def test_the_terminal_prints_the_graph_with_what_ran_and_what_waits(
    threads: Callable[[str], Location], terminal: Terminal
) -> None:
    location = threads("lg12")
    head = opened(location, "appr-waiting").checkpoints.latest("row")
    address = f"{location.path}#appr-waiting/{head.checkpoint_id}"
    printed = terminal.text("info", address, "--graph")
    (waiting,) = [name for name, status in head.units if status == "waiting"]
    assert "inferred from what ran" in printed and f"-> {waiting}" in printed
    dot = terminal.text("info", address, "--graph", "dot").splitlines()
    assert (dot[0], dot[-1]) == ("digraph {", "}") and f'  "{waiting}" [style="filled,dashed"];' in dot
    graph = terminal.document("info", address, "--graph")["graph"]
    assert graph["is_inferred"] and {"name": waiting, "status": "waiting"} in graph["nodes"]
    assert any(edge["to"] == waiting for edge in graph["edges"])


def test_the_terminal_prints_the_conditions_of_the_code(threads: Callable[[str], Location]) -> None:
    run = opened(threads("lg12"), "appr-done")
    graph = plain_graph_of(run, run.checkpoints.latest("row"), CODE)
    assert graph is not None
    assert "  sub/ask -> sub/sum  [enough]" in list(graph_lines(graph))
    assert '  "sub/ask" -> "sub/sum" [label="enough", style=dashed];' in dot_lines(graph)
