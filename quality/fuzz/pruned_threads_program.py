"""Started by ``quality.fuzz.pruned_threads`` in LangGraph's interpreter, with a first seed and a number."""

import json
import operator
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer/runners"))

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, Send, interrupt

from forkline_langgraph import pruning

IDS = ("t", "T", "t ", "%", "_", "t/n", "'; DROP TABLE checkpoints; --", "\u202e", "é" * 300, "1", "t:1|n")
LATER = 90 * 86_400


def appended(value: Any, writes: Any) -> Any:
    """The reducer of a DeltaChannel: a list with every write."""
    found = list(value or [])
    for write in writes:
        found += write
    return found


def graph_of(chance: random.Random, saver: Any) -> Any:
    """A graph of random parts: two DeltaChannels, a loop, sent tasks, and two subgraphs, one with memory."""
    often, seldom = chance.choice((1, 2, 3, 5)), chance.choice((2, 4, 100))

    class State(TypedDict, total=False):
        turn: int
        notes: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=often)]
        seen: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=seldom)]
        total: Annotated[int, operator.add]

    class Plain(TypedDict, total=False):
        turn: int
        notes: Annotated[list[str], operator.add]
        seen: Annotated[list[str], operator.add]
        total: Annotated[int, operator.add]

    kind: Any = State if chance.random() < 0.7 else Plain

    def step(state: Any) -> Any:
        turn = state.get("turn", 0)
        found: dict[str, Any] = {"turn": turn + 1, "total": 1}
        if turn % 2 == 0:
            found["notes"] = [f"n{turn}"]
        if turn % 3 == 0:
            found["seen"] = Overwrite([f"s{turn}"]) if turn % 6 == 3 and kind is State else [f"s{turn}"]
        return found

    def after(state: Any) -> Any:
        if state.get("turn", 0) >= 7:
            return END
        way = state.get("turn", 0) % 4
        if way == 1:
            return [Send("work", {"turn": number}) for number in range(3)]
        return ("step", "step", "asks", "remembers")[way]

    made = StateGraph(kind)
    made.add_node("step", step)
    made.add_node("work", lambda state: {"seen": [f"w{state['turn']}"], "total": 1})
    made.add_node("asks", subgraph(kind, "asks", None))
    made.add_node("remembers", subgraph(kind, "remembers", True))
    made.add_edge(START, "step")
    made.add_conditional_edges("step", after)
    for name in ("work", "asks", "remembers"):
        made.add_edge(name, "step")
    return made.compile(checkpointer=saver)


def subgraph(kind: Any, name: str, checkpointer: Any) -> Any:
    """A graph of two nodes, the first of which may ask."""

    def first(state: Any) -> Any:
        if name == "asks" and state.get("turn", 0) == 3:
            return {"notes": [f"answer {interrupt('go on?')}"]}
        return {"notes": [f"{name} {len(state.get('notes') or ())}"]}

    part = StateGraph(kind)
    part.add_node("first", first)
    part.add_node("second", lambda state: {"total": 1})
    part.add_edge(START, "first")
    part.add_edge("first", "second")
    return part.compile(checkpointer=checkpointer)


def fill(chance: random.Random, graph: Any, thread: str) -> None:
    """Run a thread, go on with it, edit it, and fork it."""
    config: Any = {"configurable": {"thread_id": thread}}
    durability = chance.choice(("sync", "exit"))
    graph.invoke({"turn": 0, "notes": ["start"]}, config, durability=durability)
    for _ in range(chance.randrange(4)):
        history = list(graph.get_state_history(config))
        at = chance.choice(history[: max(1, len(history) // 2)]) if chance.random() < 0.5 else history[0]
        what = chance.randrange(3)
        if what == 0:
            graph.update_state(at.config, {"notes": ["edited"], "turn": chance.randrange(8)}, as_node="step")
        elif what == 1:
            graph.invoke({"turn": chance.randrange(7)}, at.config, durability=durability)
        else:
            graph.invoke(None, at.config, durability=durability)


def read(graph: Any, saver: Any, thread: str) -> dict[tuple[str, str], str]:
    """What the engine makes of each checkpoint of a thread."""
    found = {}
    for one in list(saver.list({"configurable": {"thread_id": thread}})):
        key = one.config["configurable"]
        shown: list[Any] = [saver.get_tuple(one.config)]
        if not key["checkpoint_ns"]:
            state = graph.get_state(one.config, subgraphs=True)
            shown.append([state.values, state.next, state.metadata, state.tasks, state.parent_config])
        found[key["checkpoint_ns"], key["checkpoint_id"]] = repr(shown)
    return found


def rows(path: Path, thread: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(
                f"SELECT * FROM {table} WHERE thread_id <> ? ORDER BY 1, 2, 3, 4", (thread,)
            ).fetchall()
            for table in ("checkpoints", "writes")
        ]


def request(path: Path, thread: str, digest: str = "", **rules: Any) -> dict[str, Any]:
    return {
        "path": str(path),
        "rules": {"days": None, "latest": None, "thread": thread, "whole": False, **rules},
        "now": time.time() + LATER,
        "saver": [],
        "protected": {},
        "kept_threads": [],
        "digest": digest,
    }


def try_store(chance: random.Random, folder: Path, counts: Counter[str]) -> list[str]:
    """Return what was wrong with a prune of a random store."""
    path, wrong = folder / "threads.sqlite", []
    threads = chance.sample(IDS, 3)
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        graph = graph_of(chance, saver)
        for thread in threads:
            fill(chance, graph, thread)
        thread = threads[0]
        rules: dict[str, Any] = {"latest": chance.choice((None, 1, 2, 5))}
        if chance.random() < 0.2:
            rules = {"whole": True}
        before, others = read(graph, saver, thread), rows(path, thread)
        listed = pruning.pruned(request(path, thread, **rules))
        if chance.random() < 0.2:
            graph.invoke({"turn": 6}, {"configurable": {"thread_id": thread}})
            grown = read(graph, saver, thread)
            done = pruning.pruned(request(path, thread, listed["digest"], **rules))
            if done["deleted"] and done["rows"]:
                wrong.append("a grown thread was pruned")
            counts["grown"] += 1
            if read(graph, saver, thread) != grown:
                wrong.append("a grown thread has changed")
            before, listed = grown, pruning.pruned(request(path, thread, **rules))
        done = pruning.pruned(request(path, thread, listed["digest"], **rules))
        deleted = {(namespace, own_id) for _thread, namespace, own_id in listed["rows"]}
        if not done["deleted"] or done["rows"] != listed["rows"]:
            wrong.append("the list was not deleted")
        after = read(graph, saver, thread)
        if after.keys() != before.keys() - deleted:
            wrong.append("other checkpoints than those that were listed are gone")
        differ = [key for key in after if after[key] != before.get(key)]
        if differ:
            wrong.append(f"{len(differ)} checkpoints of {len(after)} differ, {rules}")
        if rows(path, thread) != others:
            wrong.append("another thread has changed")
        counts["stays"] += len(after)
        counts["deleted"] += len(deleted)
        counts["needed"] += listed["protected"].get("needed", 0)
        counts["whole"] += bool(rules.get("whole"))
    return wrong


def main(first: int, count: int) -> None:
    """Print what happened and what was wrong, as JSON."""
    counts, wrong = Counter[str](), []
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            wrong += [f"seed {seed}: {one}" for one in try_store(random.Random(seed), Path(folder), counts)]
    print(json.dumps({"counts": counts, "wrong": wrong}))


main(int(sys.argv[1]), int(sys.argv[2]))
