"""A recorded model call is made again with the chat models of a LangGraph project."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.test import override_settings

from tests.engine_runs.graphs import PROJECT, Graphs
from tests.engine_runs.model import TestModel, model_server
from tests.engine_runs.replays import MESSAGES, TOOL, as_replay
from tests.jobs.isolation.conftest import noted
from tests.waiting import exit_status
from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.spool import read_events
from viewer.host.jobs.starting import start_runner
from viewer.models import Project

GRAPH = "replaying:make_graph"


@pytest.fixture
def model(graphs: Graphs) -> Iterator[TestModel]:
    with model_server() as server:
        graphs.variables = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "offline"}
        yield server


def test_the_projects_client_is_called_with_each_name(graphs: Graphs, model: TestModel) -> None:
    request = graphs.request("run", GRAPH)
    replay = as_replay(
        request, "loopback-1", "loopback-2", times=2, parameters={"seed": 7, "stop_sequences": ["end"]}
    )
    run = graphs.completed(replay)

    answers = run.of("call_replayed")
    assert [(one["model"], one["attempt"], bool(one["text"])) for one in answers] == [
        ("loopback-1", 1, True),
        ("loopback-2", 1, True),
        ("loopback-1", 2, True),
        ("loopback-2", 2, True),
    ]
    assert [one["model"] for one in model.requests] == ["loopback-1", "loopback-2"] * 2
    assert all((one["seed"], one["stop"]) == (7, ["end"]) for one in model.requests)
    assert [message["role"] for message in model.requests[0]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert run.of("model_completed")[-1]["total_tokens"] == 48
    # No node has run.
    assert graphs.nodes() == [] and not run.of("checkpoint")


def test_a_requested_tool_is_reported_and_not_executed(graphs: Graphs, model: TestModel) -> None:
    model.calls_tools = 1
    replay = as_replay(graphs.request("run", GRAPH), "loopback-1", messages=MESSAGES[:2], tools=[TOOL])
    (answer,) = graphs.completed(replay).of("call_replayed")
    (tool,) = answer["tools"]
    assert (tool["name"], tool["arguments"]) == ("search_archive", {"words": "words"})
    assert len(model.requests) == 1


def test_a_dated_name_is_not_that_of_another_model(graphs: Graphs, model: TestModel) -> None:
    request = graphs.request("run", "replaying:make_graph_of_several")
    graphs.completed(as_replay(request, "loopback-1-mini-2025-04-14"))
    graphs.completed(as_replay(request, "loopback-1-0613"))
    assert [one["model"] for one in model.requests] == ["loopback-1-mini", "loopback-1"]


def test_a_limit_ends_the_calls(graphs: Graphs, model: TestModel) -> None:
    replay = as_replay(graphs.request("run", GRAPH), "loopback-1", times=5)
    run = graphs.run({**replay, "options": {"limits": {"tokens": 20}}})
    assert run.end["status"] == "cancelled" and len(model.requests) == 2


def test_without_a_client_the_refusal_says_what_is_missing(graphs: Graphs, model: TestModel) -> None:
    run = graphs.run(as_replay(graphs.request("run", "graphs:fan"), "openai:gpt-4.1"))
    assert run.end["status"] == "failed" and "openai:gpt-4.1" in run.end["error"]
    assert model.requests == []


@pytest.mark.django_db
def test_a_run_with_allowed_hosts_reaches_its_model_and_no_other(
    graphs: Graphs, model: TestModel, tmp_path: Path
) -> None:
    port = urlsplit(model.url).port
    (tmp_path / "data").mkdir()
    file = tmp_path / "keys.env"
    file.write_text(
        f"OPENAI_API_KEY=offline\nOPENAI_BASE_URL={model.url.replace('127.0.0.1', 'localhost')}\n"
    )
    isolation = {"launcher": "bubblewrap", "network": "hosts", "write": [str(graphs.folder)]}
    statuses = []
    for allowed in (port, 1):
        project = Project(
            pk=1,
            folder=str(PROJECT),
            interpreter=str(graphs.python),
            environment_file=str(file),
            isolation={**isolation, "allow": [f"localhost:{allowed}"]},
        )
        storage = JobStorage(tmp_path / "data" / f"job-{allowed}")
        storage.create()
        storage.write_request(as_replay(graphs.request("run", GRAPH), "loopback-1"))
        with override_settings(DATA_DIR=tmp_path / "data"):
            child, in_force = start_runner(storage, noted(project), engine="langgraph")
        exit_status(child, 120)
        end = read_events(storage.path, 0)[0][-1]["data"]
        statuses.append((in_force["hosts"], end["status"]))
    assert statuses == [([f"localhost:{port}"], "succeeded"), (["localhost:1"], "failed")], end
    assert len(model.requests) == 1
