"""An interrupted subgraph continues with its own state edited."""

from typing import Any

from tests.engine_runs.graphs import Graphs, checkpoints


def inner_request(graphs: Graphs, **values: Any) -> dict[str, Any]:
    """A fork of the subgraph's last checkpoint, which waits for an answer."""
    request = graphs.request("fork", "nested", "nested", **values)
    namespace = graphs.namespace("nested")
    last = checkpoints(graphs.folder, "nested", namespace)[-1]
    request["checkpoint"] = {"id": last, "source": f"{graphs.store}#nested/{namespace}/{last}"}
    return request


def test_a_subgraph_that_nothing_waits_for_is_not_forked(graphs: Graphs) -> None:
    request = inner_request(graphs, state={"topic": "dogs"})
    namespace = graphs.namespace("nested")
    first = checkpoints(graphs.folder, "nested", namespace)[0]
    request["checkpoint"] = {"id": first, "source": f"{graphs.store}#nested/{namespace}/{first}"}
    assert "cannot be forked alone" in graphs.run(request).end["error"] and graphs.nodes() == []


def test_the_preflight_check_of_a_subgraph_has_its_channels_and_nodes(graphs: Graphs) -> None:
    ended = graphs.run({**inner_request(graphs), "kind": "preflight"})
    report = ended.of("preflight")[0]["report"]
    assert report["nodes"] == ["draft", "publish", "drop", "approve"] and report["next"] == ["inner"]
    assert not report["blocks"]
