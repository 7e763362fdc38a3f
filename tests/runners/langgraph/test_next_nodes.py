"""What would run next after an edit, for each node, asked in one process, and what then does."""

import json
import sqlite3
from contextlib import closing
from typing import Any

from tests.engine_runs.graphs import Graphs, digests


def asked(graphs: Graphs, state: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
    """The answer for each node, at the checkpoint before ``approve``."""
    request = graphs.request("fork", "approval", "approval", state=state, **options)
    ended = graphs.run({**request, "kind": "next"})
    assert graphs.nodes() == []
    (event,) = ended.of("preflight")
    assert not event["report"]["blocks"], event["report"]["blocks"]
    return {one["node"]: one for one in event["report"]["next_by_node"]}


def test_each_node_shows_what_would_run_next_with_the_edited_state(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    yes, no = (asked(graphs, {"decision": answer}) for answer in ("yes", "no"))
    assert yes["approve"]["next"] == ["publish"] and no["approve"]["next"] == ["drop"]
    assert yes["draft"]["next"] == yes[""]["next"] == ["approve"] and yes["publish"]["next"] == []
    assert yes["approve"]["after"] == {"decision": "yes"}
    assert digests(graphs.folder) == before


def test_a_reducer_determines_what_an_edit_does_to_a_channel(graphs: Graphs) -> None:
    added = asked(graphs, {"notes": ["mine"]})[""]["after"]
    replaced = asked(graphs, {"notes": ["mine"]}, replace=["notes"])[""]["after"]
    assert json.loads(added["notes"]) == ["draft on cats", "mine"]
    assert json.loads(replaced["notes"]) == ["mine"]


def test_an_edge_that_cannot_decide_is_an_answer_of_its_node(graphs: Graphs) -> None:
    found = asked(graphs, {"topic": "dogs"})
    assert "KeyError" in found["approve"]["error"] and found["draft"]["next"] == ["approve"]


def test_a_thread_whose_id_has_a_slash_runs_its_own_graph(graphs: Graphs) -> None:
    with closing(sqlite3.connect(graphs.store)) as store, store:
        for table in ("checkpoints", "writes"):
            store.execute(f"UPDATE {table} SET thread_id = 'tenant/7' WHERE thread_id = 'approval'")
    request = graphs.request("fork", "approval", "tenant/7")
    (event,) = graphs.run({**request, "kind": "preflight"}).of("preflight")
    assert event["report"]["blocks"] == [] and event["report"]["next"] == ["approve"]
