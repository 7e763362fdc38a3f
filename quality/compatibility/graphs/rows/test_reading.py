"""What Forkline reads in rows that each version wrote: answers, calls, functions, next nodes and values."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quality.compatibility.graphs.rows.scenarios import DURABILITY, NO_DURABILITY
from quality.compatibility.graphs.table import CELL, ROW
from tests.engine_runs.sides import Action, DatabaseSide, Side, Store
from viewer.engines.langgraph.contents import Contents, contents_of
from viewer.engines.langgraph.plan import editable, typed_state
from viewer.engines.langgraph.store_format import STORE_FORMAT
from viewer.engines.langgraph.tabs import info
from viewer.redaction.known_secrets import NONE_KNOWN
from viewer.stores import ServerAddress
from viewer.stores.protocol import Entry, IndexedRun, IndexedStore, ReadLimits, Snapshot

THREAD = "thread"
CATS = {"topic": "cats", "notes": []}
# The first version that names a parent that is stored, if it writes checkpoints at the exit only.
PARENTS = (0, 6)
NULL_TASK = "00000000-0000-0000-0000-000000000000"
Record = Any


@dataclass(frozen=True)
class Read:
    """A thread as Forkline reads it. ``listed`` is its status before it is opened."""

    listed: str
    runs: list[IndexedRun]
    snapshots: list[Snapshot]
    contents: list[Contents]

    @property
    def head(self) -> Contents:
        """The newest checkpoint of the thread's own graph."""
        return [one for one in self.contents if not one.namespace][-1]


@contextmanager
def opened(side: Side) -> Iterator[IndexedStore]:
    """The store of a side, as a reader process opens it."""
    address = (
        ServerAddress("matrix", side.address, {}) if isinstance(side, DatabaseSide) else Path(side.address)
    )
    with STORE_FORMAT.indexed_store(address, ReadLimits(), [STORE_FORMAT], NONE_KNOWN) as store:
        yield store


def read(side: Side) -> Read:
    """The thread of a side."""
    with opened(side) as store:
        listed = {one.key: one.status for one in store.details([THREAD])}
        index = store.index(THREAD)
        bodies = []
        for one in index.snapshots:
            entry = store.entry(one.key)
            assert isinstance(entry, Entry)
            bodies.append(contents_of(json.loads(store.read(entry).data)))
    return Read(listed[THREAD], index.runs, index.snapshots, bodies)


def run(store: Store, graph: str, *actions: Action) -> Side:
    """The recorded store, after LangGraph has done this."""
    store.recorded.run_langgraph(graph, THREAD, list(actions))
    return store.recorded


def state_of(side: Side, graph: str) -> Any:
    """The next nodes that LangGraph itself tells, and those of the first task's subgraph."""
    module, _colon, name = graph.partition(":")
    code = (
        f"import json\nfrom record import opened\nfrom {module} import {name} as graph\n"
        "with opened(sys.argv[1]) as saver:\n"
        "    bound = graph.copy(update={'checkpointer': saver})\n"
        f"    config = {{'configurable': {{'thread_id': {THREAD!r}}}}}\n"
        "    state = bound.get_state(config, subgraphs=True)\n"
        "    inner = [list(one.state.next) for one in state.tasks if one.state]\n"
        "    print(json.dumps({'next': list(state.next), 'inner': inner}))\n"
    )
    return json.loads(side.by_engine(code, side.address).splitlines()[-1])


def test_answers_are_those_of_the_task_that_asked(store: Store, record_property: Record) -> None:
    record_property(ROW, f"answers are read with the task that asked ({store.name})")
    first = read(run(store, "reading:asking", {"input": CATS}, {"answer": "yes"}))
    [waiting] = first.head.tasks
    # The first question has been answered, the second one has not.
    assert (waiting.node, waiting.status, waiting.answers) == ("ask", "waiting", ("yes",))
    assert [one.value for one in waiting.questions] == [{"question": "Really?"}]
    asked = len([one for one in first.contents if not one.namespace]) - 1
    done = read(run(store, "reading:asking", {"answer": "sure"})).contents[asked]
    [task] = done.tasks
    assert (task.node, task.status, task.answers) == ("ask", "done", ("yes", "sure"))
    assert not task.questions and not done.next_nodes and not done.given
    [told] = info(done)["tasks"]
    assert [one["is_pending"] for one in told["interrupts"]] == [False] and told["answers"] == ["yes", "sure"]


def test_graphs_that_one_node_calls_are_siblings(store: Store, record_property: Record) -> None:
    record_property(ROW, f"graphs that one node calls are siblings ({store.name})")
    found = read(run(store, "reading:calling", {"input": CATS}))
    outer, *inner = found.runs
    if store.recorded.version < (0, 3):
        record_property(CELL, "LangGraph stores one")
    names = ["caller", "caller 2"][: len(inner)]
    assert inner and [one.name for one in inner] == [f"{THREAD} · {name}" for name in names]
    assert {one.parent_key for one in inner} == {outer.key}
    assert len({one.called_from for one in inner}) == 1


def test_a_function_shows_its_values_and_the_names_of_its_tasks(
    store: Store, record_property: Record
) -> None:
    record_property(ROW, f"a function's values, tasks and next node ({store.name})")
    side = run(store, "reading:write", {"input": "cats"}, {"answer": "yes"}, {"input": "dogs"})
    found = read(side)
    first, returned, waiting = found.contents
    assert first.channels == {"input": "cats"}
    texts = ["draft on cats, checked", "draft on more, checked"]
    assert returned.channels == {"returned": {"texts": texts, "answer": "yes"}, "previous": {"count": 1}}
    assert waiting.channels == {"input": "dogs", "previous": {"count": 1}}
    for one in (first, waiting):
        assert sorted(task.node for task in one.tasks) == ["check", "check", "draft", "draft", "write"]
        drafts = [write.value for task in one.tasks if task.node == "draft" for write in task.writes]
        assert "draft on more" in drafts
    assert waiting.next_nodes == state_of(side, "reading:write")["next"] == ["write"]
    assert first.next_nodes == returned.next_nodes == []
    ran = [{name for name, _status in one.units} for one in found.snapshots]
    assert ran == [set(), {"check", "draft", "write"}, {"write"}]


def test_the_next_nodes_of_nested_agents(store: Store, record_property: Record) -> None:
    record_property(ROW, f"next nodes of nested agents ({store.name})")
    side = run(store, "reading:agents", {"input": {"messages": ["hi"]}})
    found, told = read(side), state_of(side, "reading:agents")
    assert found.head.next_nodes == told["next"] == ["helper"]
    inner = [one for one in found.contents if one.namespace][-1]
    assert [inner.next_nodes] == told["inner"] == [["tools", "tools"]]
    assert [(task.node, task.status) for task in inner.tasks] == [("tools", "waiting")] * 2
    [own] = [one for one in found.runs if one.namespace]
    assert [call.tokens for call in own.calls or ()] == [5]


def test_waiting_sends_are_named(store: Store, record_property: Record) -> None:
    record_property(ROW, f"sends that wait ({store.name})")
    side = run(store, "reading:spread", {"input": CATS})
    found, told = read(side), state_of(side, "reading:spread")
    assert found.head.next_nodes == told["next"] == ["work", "work"]
    assert [task.node for task in found.head.tasks] == ["work", "work"]
    assert found.snapshots[-1].units == [("plan", "done"), ("work", "waiting"), ("work", "waiting")]


def test_a_thread_at_a_static_breakpoint_is_unfinished(store: Store, record_property: Record) -> None:
    record_property(ROW, f"a thread at a static breakpoint is not finished ({store.name})")
    side = run(store, "graphs:fan", {"input": CATS, "before": ["end"]})
    found = read(side)
    if side.version < (0, 3):
        # Only the graph knows which node reads what the last ones wrote.
        record_property(CELL, "the rows do not say")
        return
    assert (found.listed, found.snapshots[-1].trigger) == ("unfinished", "loop_unfinished")
    assert found.head.next_nodes == state_of(side, "graphs:fan")["next"] == ["end"]


WRITTEN = {
    "moment": "2024-01-02T03:04:05+00:00",
    "day": "2024-01-02",
    "clock": "03:04:05",
    "duration": "1 day, 0:00:05",
    "path": "/srv/data",
    "pattern": "(?i)x+",
    "key": "00000000-0000-0000-0000-000000000005",
    "price": "1.50",
}
NEW = {
    "moment": "2025-03-04T05:06:07+01:00",
    "day": "2025-03-04",
    "clock": "05:06:07",
    "duration": "2:30:00",
    "path": "/home/me",
    "pattern": "y",
    "key": "00000000-0000-0000-0000-000000000007",
    "price": "2.75",
    "items": [{"name": "b", "day": "2025-03-04"}, {"name": "a", "day": "2024-01-02"}],
}


def test_values_are_read_as_what_they_are_and_edits_have_their_types(
    store: Store, record_property: Record
) -> None:
    record_property(ROW, f"dates, paths, models and others are read and edited ({store.name})")
    if store.recorded.version < (0, 6):
        # The metadata of these versions repeats the values as JSON, which cannot have them.
        record_property(CELL, "LangGraph cannot store it")
        return
    side = run(store, "reading:values", {"input": {"topic": "cats"}})
    filled = read(side).contents[2]
    shown = editable(filled).state or {}
    assert {name: shown[name] for name in WRITTEN} == WRITTEN
    state = typed_state(filled, NEW)
    request = side.request("fork", "reading:values", THREAD, 2, state=state)
    ended = side.run(request | {"accepted_effects": ["*"]})
    assert ended.end["status"] == "succeeded", ended.end
    told = json.loads(ended.end["result"])["topic"]
    for part in (
        "datetime.datetime(2025, 3, 4, 5, 6, 7, tzinfo=",
        "day=datetime.date(2025, 3, 4)",
        "clock=datetime.time(5, 6, 7)",
        "duration=datetime.timedelta(seconds=9000)",
        "path=PosixPath('/home/me')",
        "pattern=re.compile('y')",
        "key=UUID('00000000-0000-0000-0000-000000000007')",
        "price=Decimal('2.75')",
        "items=[Item(name='b', day=datetime.date(2025, 3, 4)), Item(name='a', day=",
        "points=[Point(x=1)]",
    ):
        assert part in told, part


@pytest.mark.parametrize("name", ["asking", "write"])
def test_no_task_has_the_id_of_a_command(store: Store, record_property: Record, name: str) -> None:
    record_property(ROW, f"what a command brings is no task: {name} ({store.name})")
    given: Any = "cats" if name == "write" else CATS
    found = read(run(store, f"reading:{name}", {"input": given}, {"answer": "yes"}))
    assert not any(task.id == NULL_TASK for one in found.contents for task in one.tasks)
    assert all(task.node for one in found.contents for task in one.tasks)


@pytest.mark.parametrize("graph", ["asking:short", "features:asking_delta"])
def test_what_is_answered_at_the_exit_is_not_pending(
    store: Store, record_property: Record, graph: str
) -> None:
    channels = "changes of channels" if graph == "features:asking_delta" else "channels"
    record_property(ROW, f'an answer with durability="exit", {channels} ({store.name})')
    version = store.recorded.version
    if graph == "features:asking_delta" and version < (1, 2):
        record_property(CELL, "no DeltaChannel")
        return
    if version < DURABILITY:
        record_property(CELL, NO_DURABILITY)
        return
    side = run(store, graph, {"input": CATS, "late": True}, {"answer": "yes", "late": True})
    found = read(side)
    asked = [one for one in found.contents if one.tasks]
    if version < PARENTS:
        # Nothing says that the checkpoints belong together. The newest one is that of the thread.
        record_property(CELL, "pass; LangGraph names a parent that it never stores")
        [before, after] = found.snapshots
        assert after.parent_id != before.checkpoint_id and after.trigger == "loop_ended"
        assert asked[0].next_nodes == ["first"] and not found.head.next_nodes and not found.listed
        return
    for one in asked:
        assert not one.next_nodes and not any(task.questions for task in one.tasks)
        assert all(task.status == "done" for task in one.tasks)
        assert sorted(task.node for task in one.tasks if task.interrupts) == ["first"]
        assert len({task.node for task in one.tasks}) == len(one.tasks)
    assert len(asked) == 1 and found.snapshots[-1].trigger == "loop_ended"
    ran = {name for one in found.snapshots for name, _status in one.units}
    assert ran == {"done", "first", "end"}
    # Where nobody has answered, the question waits.
    again = read(run(store, graph, {"input": CATS, "late": True}))
    assert again.head.next_nodes == ["first"] and again.snapshots[-1].trigger == "loop_waiting"
    assert [task.status for task in again.head.tasks] == ["waiting", "done"]
