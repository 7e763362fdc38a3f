"""A dry run of a graph whose model answers come from its record: no model is called."""

import _socket
import socket
from typing import Any

import pytest

from forkline_runner.recorded import Message, digest_of, own_connection, replaced
from tests.engine_runs.graphs import Graphs
from tests.engine_runs.runs import Ended
from tests.imported import imported_location
from tests.langgraph.conftest import opened
from viewer.engines.recorded_calls import ModelChoice
from viewer.launching.preview import preview_launch
from viewer.launching.requests import ForkRequest
from viewer.records.bodies import stored_contents

pytestmark = pytest.mark.django_db
WEATHER = {"tool": "weather", "arguments": {"town": "Oslo"}, "result": "sunny in Oslo"}
# The checkpoint before the model is called first.
FIRST = 1


@pytest.fixture
def agent(graphs: Graphs, settings: Any) -> Graphs:
    """Return the thread ``agent``, in which the model has called a tool and then answered."""
    settings.CHECKPOINT_ROOTS = [graphs.folder]
    graphs.completed(graphs.request("run", "agents:agent", "agent", inputs={"messages": ["Oslo"]}))
    graphs.nodes()
    return graphs


def fork(graphs: Graphs, thread: str, choice: ModelChoice, **given: Any) -> dict[str, Any]:
    """Return a fork before the first call, as a preview makes it."""
    run = opened(imported_location(graphs.store), thread)
    row = run.checkpoints.get(checkpoint_id=graphs.checkpoints(thread)[FIRST])
    entry_point = f"agents:{thread}"
    preview = preview_launch(
        ForkRequest(
            checkpoint=row,
            contents=stored_contents(row),
            project=None,
            branch="what-if",
            entry_point=entry_point,
            model_calls=choice,
        )
    )
    options: dict[str, Any] = {
        "tools": preview.options["tools"],
        "model_calls": preview.options["model_calls"],
    }
    # Old versions name messages by a former module, which a person accepts.
    return graphs.request("fork", entry_point, thread, FIRST, **given, **options) | {
        "accepted_effects": ["*"]
    }


def answered(ended: Ended) -> list[str]:
    return [one["answer"] for one in ended.of("model_answered")]


def edited(text: str) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": text}]}


@pytest.mark.parametrize("choice", [ModelChoice.RECORDED, ModelChoice.IN_ORDER])
def test_recorded_answers_repeat_a_run_without_a_call(agent: Graphs, choice: ModelChoice) -> None:
    ended = agent.completed(fork(agent, "agent", choice))
    assert ended.end["result"] == "It is sunny in Oslo."
    assert answered(ended) == ["weather", "It is sunny in Oslo."]
    assert [one["decision"] for one in ended.of("tool_decided")] == ["recorded"]
    assert agent.nodes() == [] and not ended.of("model_started")


def test_the_answers_and_tool_calls_of_a_called_agent_are_used(agent: Graphs) -> None:
    entry_point = "agents:delegating"
    agent.completed(agent.request("run", entry_point, "delegating", inputs={"messages": ["Oslo"]}))
    agent.nodes()
    request = fork(agent, "delegating", ModelChoice.RECORDED)
    assert request["options"]["tools"]["recorded"] == [WEATHER]
    ended = agent.completed(request)
    assert ended.end["result"] == "Says: It is sunny in Oslo." and agent.nodes() == []


def test_a_call_with_other_messages_stops_the_run(agent: Graphs) -> None:
    stopped = agent.run(fork(agent, "agent", ModelChoice.RECORDED, state=edited("And Rome?")))
    assert stopped.end["status"] == "failed" and "The call was: And Rome?" in stopped.end["error"]
    assert agent.nodes() == []
    in_order = agent.completed(fork(agent, "agent", ModelChoice.IN_ORDER, state=edited("And Rome?")))
    assert in_order.end["result"] == "It is sunny in Oslo." and agent.nodes() == []


def test_a_run_that_calls_more_often_than_it_was_recorded_stops(agent: Graphs) -> None:
    request = fork(agent, "agent", ModelChoice.IN_ORDER)
    del request["options"]["model_calls"]["recorded"][1:]
    stopped = agent.run(request)
    assert stopped.end["status"] == "failed" and "no further answer" in stopped.end["error"]
    assert len(answered(stopped)) == 1 and agent.nodes() == []


def test_a_stream_of_a_model_that_is_defined_later_is_answered(agent: Graphs) -> None:
    agent.completed(
        agent.request("run", "agents:streaming", "streaming", inputs={"messages": ["A and Oslo"]})
    )
    agent.nodes()
    # The node has written both answers at once.
    asked: Message = ("user", "A and Oslo", [])
    calls = [("tide", {"town": "Oslo"})]
    messages = [[asked], [asked, ("assistant", "", calls), ("tool", "low", [])]]
    recorded = [
        {
            "messages": digest_of(sent),
            "sent": "",
            "model": "",
            "id": "",
            "is_certain": True,
            "is_in_order": False,
        }
        for sent in messages
    ]
    recorded[0] |= {"text": "", "tools": [{"name": "tide", "arguments": {"town": "Oslo"}, "id": "1"}]}
    recorded[1] |= {"text": "It is low.", "tools": []}
    tide = {"tool": "tide", "arguments": {"town": "Oslo"}, "result": "low"}
    request = agent.request(
        "fork",
        "agents:streaming",
        "streaming",
        FIRST,
        tools={"choices": {}, "recorded": [tide], "is_known": True, "dry_run": True},
        model_calls={"recorded": recorded, "in_order": False},
    ) | {"accepted_effects": ["*"]}
    ended = agent.completed(request)
    assert ended.end["result"] == "It is low." and agent.nodes() == []


def test_only_forklines_own_connection_to_a_store_is_allowed() -> None:
    with replaced([]):
        with own_connection():
            assert socket.getaddrinfo("localhost", 80)
        raw = _socket.socket()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
            for connect in (
                lambda: socket.getaddrinfo("localhost", 80),
                lambda: socket.gethostbyname("localhost"),
                lambda: raw.connect(("127.0.0.1", 9)),
                lambda: found.sendto(b"", ("127.0.0.1", 9)),
                lambda: found.sendmsg([b""], [], 0, ("127.0.0.1", 9)),
            ):
                with pytest.raises(ConnectionRefusedError):
                    connect()
    assert socket.getaddrinfo("localhost", 80)
