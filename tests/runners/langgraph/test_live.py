"""A run as it happens: streamed text, limits and cancelling, with a model on loopback."""

import json
import signal

import pytest
from offline_model.server import OfflineModel

from tests.engine_runs.graphs import Graphs, checkpoints
from tests.waiting import wait_until
from viewer.host.jobs.spool import read_events


@pytest.fixture
def live(graphs: Graphs, offline_model: OfflineModel) -> Graphs:
    """Runs jobs that call the model."""
    graphs.variables["OPENAI_BASE_URL"] = offline_model.url
    return graphs


@pytest.mark.parametrize("graph", ["chat", "achat"])
def test_the_text_of_a_model_is_streamed_while_its_node_runs(
    live: Graphs, offline_model: OfflineModel, graph: str
) -> None:
    offline_model.delay = 0.06
    ended = live.completed(live.request("run", f"chat:{graph}", inputs={"topic": "tea"}))
    texts = ended.of("text")
    assert len(texts) > 1 and {one["agent"] for one in texts} == {"write"}
    kinds = [event["kind"] for event in ended.lines]
    assert kinds.index("text") < kinds.index("node_completed")
    assert "".join(one["text"] for one in texts) == json.loads(ended.end["result"])["notes"][0]
    (completed,) = ended.of("model_completed")
    assert completed["total_tokens"] > 0 and len(offline_model.requests) == 1


def test_a_limit_of_steps_stops_before_the_next_node_and_loses_nothing(live: Graphs) -> None:
    request = live.request("run", "fan", "limited", inputs={"topic": "tea"}, limits={"steps": 1})
    ended = live.run(request)
    assert ended.end["status"] == "cancelled" and ended.of("limit")[0]["measure"] == "steps"
    assert live.nodes() == ["start"]
    live.completed(live.request("resume", "fan", "limited"))
    assert live.nodes() == ["end", "left", "right"]


def test_a_limit_of_tokens_stops_before_the_next_call(live: Graphs, offline_model: OfflineModel) -> None:
    request = live.request("run", "chat:chat", "tokens", inputs={"topic": "tea"}, limits={"tokens": 1})
    ended = live.run(request)
    assert ended.end["status"] == "cancelled" and ended.of("limit")[0]["measure"] == "tokens"
    assert len(offline_model.requests) == 1 and live.nodes() == ["write"]


@pytest.mark.parametrize("graph", ["chat", "achat"])
def test_a_cancelled_run_ends_and_can_be_resumed(
    live: Graphs, offline_model: OfflineModel, graph: str
) -> None:
    offline_model.gate.clear()
    child, folder = live.start(live.request("run", f"chat:{graph}", "stopped", inputs={"topic": "tea"}))
    wait_until(lambda: bool(offline_model.requests))
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    assert read_events(folder, 0)[0][-1]["data"]["status"] == "cancelled"
    offline_model.gate.set()
    assert checkpoints(live.folder, "stopped")
    live.nodes()
    live.completed(live.request("resume", f"chat:{graph}", "stopped"))
    assert live.nodes() == ["last", "write"]


def test_a_limit_of_seconds_ends_a_call_that_does_not_return(
    live: Graphs, offline_model: OfflineModel
) -> None:
    offline_model.gate.clear()
    ended = live.run(live.request("run", "chat:chat", inputs={"topic": "tea"}, limits={"seconds": 2}))
    offline_model.gate.set()
    assert ended.end["status"] == "cancelled" and ended.of("limit")[0]["measure"] == "seconds"
