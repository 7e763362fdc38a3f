"""Forks are written to the user's store by LangGraph's own saver, whole and at most once."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.graphs import RUNNER, THREADS, Graphs, checkpoints, record
from tests.engine_runs.runs import Ended

TABLES = ("checkpoints", "writes")


def rows(graphs: Graphs, without: str = "") -> list[tuple[Any, ...]]:
    """Every row of the store, or those of the other threads."""
    with closing(sqlite3.connect(f"file:{graphs.store}?mode=ro", uri=True)) as connection:
        return [
            row
            for table in TABLES
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4")
            if row[0] != without
        ]


def forked(graphs: Graphs, thread: str = "fan", at: int = 2, *answers: str, **options: Any) -> dict[str, Any]:
    """A fork with a changed topic, and the request that publishes it."""
    asked = graphs.request("fork", THREADS[thread], thread, at, **options)
    ended = graphs.completed(asked, *answers)
    last = ended.of("checkpoint")[-1]
    request = graphs.request("publish", "", thread, into="new-thread", new_thread=asked["job"])
    return request | {"checkpoint": {"id": last["id"], "source": last["path"]}, "entry_point": ""}


HEAD = """
import json, sqlite3
from graphs import builder
from langgraph.checkpoint.sqlite import SqliteSaver

graph = builder.compile(checkpointer=SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False)))
print(json.dumps(graph.get_state({"configurable": {"thread_id": sys.argv[2]}}).values["notes"]))
"""


def notes_of(graphs: Graphs, thread: str) -> list[str]:
    """The notes at the head of a thread, as LangGraph reads them."""
    printed = graphs.by_engine(HEAD, str(graphs.store), thread)
    return list(json.loads(printed.splitlines()[-1]))


def published(ended: Ended) -> dict[str, Any]:
    assert ended.end["status"] == "succeeded", ended.end
    (event,) = ended.of("published")
    return dict(event)


def test_a_fork_is_published_as_a_new_thread_and_the_others_stay_as_they_were(graphs: Graphs) -> None:
    before = rows(graphs)
    request = forked(graphs, state={"topic": "dogs"})
    assert rows(graphs) == before
    done = published(graphs.run(request))
    thread = request["options"]["new_thread"]
    # The forked checkpoint, the edit, and two steps.
    assert done == {"thread": thread, "into": "new-thread", "checkpoints": 4}
    assert rows(graphs, without=thread) == before
    assert len(checkpoints(graphs.folder, thread)) == 4


def test_a_draft_in_a_folder_of_any_name_is_published(graphs: Graphs, tmp_path: Path) -> None:
    request = forked(graphs, state={"topic": "dogs"})
    store, _, key = request["checkpoint"]["source"].rpartition("#")
    # The signs of a URI, which SQLite would read in a path.
    folder = shutil.copytree(Path(store).parent, tmp_path / "a#b?c%41")
    request["checkpoint"]["source"] = f"{folder / Path(store).name}#{key}"
    assert published(graphs.run(request))["checkpoints"] == 4


def test_langgraph_continues_a_published_thread(graphs: Graphs) -> None:
    request = forked(graphs, state={"topic": "dogs"})
    thread = published(graphs.run(request))["thread"]
    before = rows(graphs, without=thread)
    record(graphs.engine, graphs.folder, "fan", thread, {"topic": "mice"})
    assert graphs.nodes() == ["end", "left", "right", "start"]
    assert rows(graphs, without=thread) == before
    assert {"end on dogs", "end on mice"} <= set(notes_of(graphs, thread))


def test_publishing_again_writes_nothing(graphs: Graphs) -> None:
    request = forked(graphs)
    published(graphs.run(request))
    for _again in range(2):
        before = rows(graphs)
        assert published(graphs.run(request))["checkpoints"] == 0
        assert rows(graphs) == before
        # Also once LangGraph has continued it.
        record(graphs.engine, graphs.folder, "fan", request["options"]["new_thread"], {"topic": "mice"})


def test_a_thread_of_this_name_is_never_added_to(graphs: Graphs) -> None:
    request = forked(graphs)
    request["options"]["new_thread"] = "approval"
    before = rows(graphs)
    assert "has a thread approval" in graphs.run(request).end["error"]
    assert rows(graphs) == before


def test_a_fork_becomes_the_head_of_its_thread(graphs: Graphs) -> None:
    before = checkpoints(graphs.folder, "fan")
    others = rows(graphs, without="fan")
    request = forked(graphs, state={"topic": "dogs"})
    request["options"]["into"] = "thread"
    assert published(graphs.run(request)) == {"thread": "fan", "into": "thread", "checkpoints": 3}
    after = checkpoints(graphs.folder, "fan")
    assert after[: len(before)] == before and len(after) == len(before) + 3
    assert rows(graphs, without="fan") == others
    assert published(graphs.run(request))["checkpoints"] == 0
    assert "end on dogs" in notes_of(graphs, "fan")


def test_what_the_thread_has_stays_when_a_fork_is_added_to_it(graphs: Graphs) -> None:
    before = rows(graphs)
    request = forked(graphs, "approval", -1, "no")
    request["options"]["into"] = "thread"
    published(graphs.run(request))
    assert set(before) <= set(rows(graphs))


def test_a_thread_that_has_continued_is_not_added_to(graphs: Graphs) -> None:
    request = forked(graphs)
    request["options"]["into"] = "thread"
    record(graphs.engine, graphs.folder, "fan", "fan", {"topic": "mice"})
    before = rows(graphs)
    assert "The thread has continued" in graphs.run(request).end["error"]
    assert rows(graphs) == before


def test_a_fork_that_waits_in_a_subgraph_is_published_with_its_question(graphs: Graphs) -> None:
    request = forked(graphs, "nested", -1, "no")
    thread = published(graphs.run(request))["thread"]
    with closing(sqlite3.connect(graphs.store)) as connection:
        found = connection.execute(
            "SELECT DISTINCT checkpoint_ns <> '' FROM checkpoints WHERE thread_id = ? ORDER BY 1", (thread,)
        )
        assert found.fetchall() == [(0,), (1,)]
    graphs.completed(graphs.request("fork", "nested", thread, 0), "yes")


@pytest.mark.parametrize("into", ["new-thread", "thread"])
def test_a_fork_is_published_at_its_end_if_a_person_chose_so(graphs: Graphs, into: str) -> None:
    request = graphs.request("fork", "fan", "fan", 2, into=into)
    thread = "fan" if into == "thread" else request["job"]
    assert published(graphs.run(request)) == {
        "thread": thread,
        "into": into,
        "checkpoints": 3 - (into == "thread"),
    }


def test_a_store_that_cannot_be_written_is_left_as_it_is(graphs: Graphs) -> None:
    request = forked(graphs)
    writer = sqlite3.connect(graphs.store, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    ended = graphs.run(request)
    writer.rollback()
    writer.close()
    assert "Nothing was written" in ended.end["error"]
    assert not checkpoints(graphs.folder, request["options"]["new_thread"])


def test_a_publication_that_is_killed_half_way_leaves_nothing(graphs: Graphs) -> None:
    request = forked(graphs)
    before = rows(graphs)
    program = f"""
import os, sys
sys.path.insert(0, {str(RUNNER.parent)!r})
from pathlib import Path
from forkline_langgraph import savers
from langgraph.checkpoint.sqlite import SqliteSaver
put, calls = SqliteSaver.put, []
def killed(self, *arguments):
    calls.append(1)
    if len(calls) == 3:
        os._exit(9)
    return put(self, *arguments)
SqliteSaver.put = killed
request = {request!r}
store = Path(request["checkpoint"]["source"].rpartition("#")[0])
savers.publish(request, store, "new-thread", "half", None)
"""
    done = subprocess.run([graphs.python, "-c", program], env={"PATH": os.environ["PATH"]}, check=False)
    assert done.returncode == 9
    assert rows(graphs) == before
    assert published(graphs.run(request))["checkpoints"] == 3
