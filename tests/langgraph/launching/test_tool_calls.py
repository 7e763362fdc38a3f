"""The tool calls that a fork of a thread would repeat, and what happens to them."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from tests.langgraph.conftest import opened
from tests.terminal import Terminal
from viewer.engines.langgraph.contents import contents_of
from viewer.engines.langgraph.recorded_calls import recorded_tools as langgraph_tools
from viewer.engines.langgraph.recorded_calls import tools_of_code
from viewer.engines.plan import Action, Edits, Reason, Step
from viewer.engines.recorded_calls import ModelChoice, RecordedAnswers, RecordedTools, SpanSource, ToolChoice
from viewer.launching.calls import MAX_CALLS
from viewer.launching.preview import LaunchPreview, preview_launch
from viewer.launching.requests import ForkRequest
from viewer.models import Checkpoint, Location, PreflightCheck, Project, Run
from viewer.records.bodies import stored_contents
from viewer.records.recorded_calls import recorded_tools
from viewer.redaction import MARKER


@pytest.fixture
def agent(threads: Callable[[str], Location]) -> Run:
    """Return a thread whose model has called a tool once, after its third checkpoint."""
    return opened(threads("lg10"), "agent")


def at(run: Run, row: int) -> Checkpoint:
    return run.checkpoints.select_related("location__project", "run", "stored_copy").get(row=row)


def preview(row: Checkpoint, project: Project | None = None, **choices: Any) -> LaunchPreview:
    contents = stored_contents(row)
    request = ForkRequest(
        checkpoint=row, contents=contents, project=project, branch="what-if", entry_point="a:b", **choices
    )
    return preview_launch(request)


def test_a_fork_before_a_call_repeats_it_and_one_after_it_does_not(agent: Run) -> None:
    found = [[call.tool for call in recorded_tools(at(agent, row), []).calls] for row in range(4)]
    assert found == [["weather"], ["weather"], ["weather"], []]


def test_a_recorded_call_has_its_arguments_its_time_and_its_result(agent: Run) -> None:
    (call,) = recorded_tools(at(agent, 0), []).calls
    assert (call.unit, call.arguments, call.result) == ("tools", {"town": "Oslo"}, "sunny in Oslo")
    assert call.at and call.at.date().isoformat() == "2026-11-23"


def test_the_calls_of_a_checkpoint_without_a_date_are_found(agent: Run) -> None:
    agent.checkpoints.update(created_at=None)
    assert [call.tool for call in recorded_tools(at(agent, 0), []).calls] == ["weather"]


def test_a_person_is_asked_about_a_recorded_call_unless_the_person_chose_otherwise(agent: Run) -> None:
    row = at(agent, 0)
    unchosen = preview(row)
    assert [view.choice for view in unchosen.tools] == [ToolChoice.ASK]
    recorded = [{"tool": "weather", "arguments": {"town": "Oslo"}, "result": "sunny in Oslo"}]
    assert unchosen.options["tools"] == {
        "choices": {},
        "recorded": recorded,
        "is_known": True,
        "dry_run": False,
    }
    chosen = preview(row, tools={"weather": ToolChoice.REFUSE}, dry_run=True)
    assert chosen.options["tools"] == {
        "choices": {"weather": "refuse"},
        "recorded": recorded,
        "is_known": True,
        "dry_run": True,
    }


def test_a_fork_that_repeats_no_call_calls_every_tool(agent: Run) -> None:
    assert "tools" not in preview(at(agent, 3)).options


def test_a_fork_whose_record_is_too_large_to_read_asks_about_every_tool(agent: Run) -> None:
    agent.checkpoints.filter(row=2).update(size=10**9)
    tools = preview(at(agent, 0)).options["tools"]
    assert (tools["recorded"], tools["is_known"]) == ([], False)


def test_a_choice_is_kept_by_the_project(agent: Run, tmp_path: Path) -> None:
    project = Project.objects.create(folder=str(tmp_path), interpreter="/bin/python")
    project.keep_tool_choices({"weather": "call", "gone": "no choice any more"})
    (view,) = preview(at(agent, 0), Project.objects.get()).tools
    assert view.choice is ToolChoice.CALL


@pytest.mark.parametrize("declared", ["weather", " Weather ", "news:WEATHER"])
def test_a_declared_tool_is_called_unless_a_person_chose_otherwise(
    agent: Run, settings: Any, tmp_path: Path, declared: str
) -> None:
    row = at(agent, 0)
    project = Project.objects.create(folder=str(tmp_path / "news"), interpreter="/bin/python")
    (asked,) = preview(row, project).tools
    assert asked.choice is ToolChoice.ASK and "Only the run knows" in asked.note
    settings.READ_ONLY_TOOLS = ["other:weather", declared]
    shown = preview(row, project)
    (view,) = shown.tools
    assert view.choice is ToolChoice.CALL and "READ_ONLY_TOOLS" in view.note
    assert shown.options["tools"]["choices"] == {"weather": "call"}
    project.keep_tool_choices({"weather": "refuse"})
    refused = preview(row, project)
    assert (refused.tools[0].choice, refused.tools[0].note) == (ToolChoice.REFUSE, "")
    assert refused.options["tools"]["choices"] == {"weather": "refuse"}


def test_a_tool_of_another_project_is_not_declared(agent: Run, settings: Any) -> None:
    settings.READ_ONLY_TOOLS = ["other:weather", "", ":", "news:"]
    (view,) = preview(at(agent, 0)).tools
    assert view.choice is ToolChoice.ASK


@pytest.mark.parametrize(("state", "others"), [(None, ["tide"]), ({"messages": []}, ["tide", "book"])])
def test_a_tool_of_the_code_without_a_record_may_be_called(agent: Run, state: Any, others: list[str]) -> None:
    row = at(agent, 0)
    nodes = [("agent", ["weather", "tide"], True), ("before", ["book"], False)]
    tools = [{"node": node, "tools": names, "may_run": may_run} for node, names, may_run in nodes]
    shown = preview(row, edits=Edits(state=state))
    options = shown.options["tools"]
    assert [view.tool for view in shown.tools] == ["weather"]
    shown.add_findings(PreflightCheck(checkpoint=row, status="done", report={"tools": tools}))
    assert shown.options["tools"] == options
    weather, *rest = shown.tools
    assert len(weather.calls) == 1 and weather.choice is ToolChoice.ASK
    assert [(view.tool, view.calls, view.choice) for view in rest] == [
        (tool, [], ToolChoice.CALL) for tool in others
    ]


@pytest.mark.parametrize("tools", [None, 3, [3], {"tools": ["book"]}, [{"tools": 3, "may_run": True}]])
def test_a_report_with_unknown_tools_names_none(tools: Any) -> None:
    assert tools_of_code({"tools": tools}, is_edited=True) == []


def test_answers_that_are_redacted_or_too_many_are_not_used(agent: Run, monkeypatch: Any) -> None:
    row = at(agent, 0)
    shown = preview(row, model_calls=ModelChoice.RECORDED)
    assert "Recorded answers: 2" in shown.model_note and "stops the run" in shown.model_note
    assert shown.options["tools"]["dry_run"] and not shown.options["model_calls"]["in_order"]
    answers = [replaced | {"text": f"key {MARKER}"} for replaced in map(dict, shown.answers.answers)]
    shown.answers = RecordedAnswers(answers)  # type: ignore[arg-type]
    assert [one["text"] for one in shown.options["model_calls"]["recorded"]] == [None, None]
    monkeypatch.setattr("viewer.launching.calls.MAX_ANSWERS", 3)
    assert any("too large" in one.message for one in preview(row, model_calls=ModelChoice.IN_ORDER).checks)
    agent.checkpoints.filter(row=2).update(size=10**9)
    assert any("too large" in one.message for one in preview(row, model_calls=ModelChoice.RECORDED).checks)


def test_a_hidden_value_neither_matches_nor_answers(agent: Run) -> None:
    row = at(agent, 0)
    call, shown = recorded_tools(row, []).calls[0], preview(row)
    shown.recorded = RecordedTools([replace(call, result=f"key {MARKER}")])
    assert shown.options["tools"]["recorded"][0]["result"] is None


def test_arguments_with_numbers_that_no_database_stores_are_sent_as_text(agent: Run) -> None:
    row = at(agent, 0)
    call, shown = recorded_tools(row, []).calls[0], preview(row)
    shown.recorded = RecordedTools([replace(call, arguments={"n": float("inf")})])
    (sent,) = shown.options["tools"]["recorded"]
    assert sent["arguments"] == '{"n": Infinity}'


def test_a_request_with_fewer_calls_than_were_recorded_asks_about_every_tool(agent: Run) -> None:
    row = at(agent, 0)
    call, shown = recorded_tools(row, []).calls[0], preview(row)
    shown.recorded = RecordedTools([call] * (MAX_CALLS + 1))
    tools = shown.options["tools"]
    assert (len(tools["recorded"]), tools["is_known"]) == (MAX_CALLS, False)


def test_a_form_offers_a_choice_that_no_result_fits(agent: Run, runner: Client, tmp_path: Path) -> None:
    kept = {"weather": "recorded"}
    project = Project.objects.create(
        folder=str(tmp_path), interpreter=sys.executable, confirmed_at=now(), tool_choices=kept
    )
    Location.objects.update(project=project)
    page = runner.get(reverse("fork", args=[at(agent, 3).pk])).content.decode()
    assert "tool:weather" not in page
    posted = runner.post(reverse("fork-plan", args=[at(agent, 3).pk]), {"tool:weather": "recorded"})
    assert '<option value="recorded" selected>' in posted.content.decode()


def message(role: str, content: str = "", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def source(*messages: dict[str, Any], written: Sequence[dict[str, Any]] = ()) -> SpanSource:
    """Return a checkpoint with these messages, after which the node ``tools`` wrote others."""
    writes = [{"task_id": "t", "channel": "messages", "index": 0, "value": list(written)}]
    body = {
        "checkpoint_id": "1",
        "checkpoint": {"channel_values": {"messages": list(messages)}},
        "task_names": {"t": "tools"},
        "writes": writes if written else [],
    }
    return SpanSource("1", now(), contents_of(body))


CALLS = [{"id": name, "name": "search", "args": {"text": name}} for name in ("a", "b")]
ASKED, FIRST = message("assistant", tool_calls=CALLS), message("tool", "one", tool_call_id="a", name="search")
SECOND = message("tool", "two", tool_call_id="b", name="search")


def test_of_parallel_calls_only_the_unanswered_one_is_pending() -> None:
    found = langgraph_tools([source(ASKED, FIRST)], []).calls
    assert [(call.arguments, call.at) for call in found] == [({"text": "b"}, None)]


def test_an_answered_call_that_a_node_writes_again_is_not_repeated() -> None:
    found = langgraph_tools([source(ASKED, FIRST, written=[ASKED, FIRST, SECOND])], []).calls
    assert [(call.arguments, call.result) for call in found] == [({"text": "b"}, "two")]


def test_a_resume_does_not_repeat_the_calls_of_finished_tasks() -> None:
    kept = Step("tools", 1, "tools", "", Action.KEPT, Reason.FINISHED)
    assert langgraph_tools([source(ASKED, written=[FIRST, SECOND])], [kept]).calls == []


def test_the_form_lists_the_calls_and_sends_the_choice(agent: Run, runner: Client, tmp_path: Path) -> None:
    project = Project.objects.create(folder=str(tmp_path), interpreter=sys.executable, confirmed_at=now())
    Location.objects.update(project=project)
    row = at(agent, 0)
    page = runner.get(reverse("fork", args=[row.pk])).content.decode()
    assert 'name="tool:weather"' in page and "town: Oslo" in page and "→ sunny in Oslo" in page
    plan = runner.post(reverse("fork-plan", args=[row.pk]), {"tool:weather": "recorded"}).content.decode()
    assert '<option value="recorded" selected>' in plan
    recorded = runner.post(reverse("fork-plan", args=[row.pk]), {"model_calls": "in-order"}).content.decode()
    assert '<option value="in-order" selected>' in recorded and "gets the next answer" in recorded
    wrong = runner.post(reverse("fork-plan", args=[row.pk]), {"tool:weather": "explode"}).content.decode()
    assert '<option value="ask" selected>' in wrong


def test_the_terminal_lists_the_calls_and_refuses_what_is_no_choice(agent: Run, terminal: Terminal) -> None:
    row = at(agent, 0)
    name = f"{agent.location.path}#agent/{row.checkpoint_id}"
    document = terminal.document("fork", name, "--plan", "--tool", "weather=recorded")
    (tool,) = document["tools"]
    assert (tool["tool"], tool["choice"], tool["calls"][0]["result"]) == (
        "weather",
        "recorded",
        "sunny in Oslo",
    )
    refused = terminal.refused("fork", name, "--plan", "--tool", "weather=explode")
    assert "call, ask, recorded, refuse" in refused["error"]
