"""The triggers of a flow's methods, read from its source, and the methods that follow a checkpoint."""

import time
from pathlib import Path

import pytest

from tests.engine_runs.runs import LINE, PRESS
from viewer.engines.crewai.flow_plan import (
    Condition,
    FlowMethod,
    Following,
    flow_methods,
    following,
)
from viewer.engines.plan import Decision, Route

LOOP = "press_loop:LoopFlow"
RETRY = Decision("judge", (Route("retry", ("write",)), Route("done", ("publish",))), False)


def methods_of(folder: Path, source: str, entry_point: str = "flow:A") -> dict[str, FlowMethod]:
    (folder / "flow.py").write_text(source)
    return {one.name: one for one in flow_methods(folder, entry_point)}


def test_a_loop_is_read_with_its_routes() -> None:
    assert flow_methods(PRESS, LOOP) == (
        FlowMethod("write", starts=True, starts_on=Condition(("retry",))),
        FlowMethod("judge", listens_to=Condition(("write",)), is_router=True, labels=("retry", "done")),
        FlowMethod("publish", listens_to=Condition(("done",))),
    )


CONDITIONS = """
from enum import Enum
from crewai.flow.flow import Flow, and_, listen as on, or_, router, start
class Way(str, Enum):
    LEFT = "left"
    RIGHT = "right"
STOP = "stop"
class Base(Flow):
    @start()
    def begin(self): ...
class A(Base):
    @on(and_(begin, or_("x", STOP)))
    def both(self): ...
    @router(both)
    def turn(self) -> Way: ...
    @on(Way.LEFT.value)
    async def go(self): ...
    @router(Base.begin)
    def other(self):
        def inner(): return "no label"
        if self.state.x: return "one" if self.state.y else Way.RIGHT
        for _ in range(3): return None
        return "two"
    @router("go", emit=["a", "b"])
    def told(self) -> str: ...
    @router(go)
    def free(self): return self.state.way
    @start()
    @human_feedback(message="?", emit=["ok", "again"])
    def ask(self): ...
    def helper(self): ...
"""


def test_conditions_aliases_and_enumerations_are_read(tmp_path: Path) -> None:
    found = methods_of(tmp_path, CONDITIONS)
    assert list(found) == ["begin", "both", "turn", "go", "other", "told", "free", "ask"]
    assert found["both"].listens_to == Condition(("begin", Condition(("x", "stop"))), needs_all=True)
    assert found["go"].listens_to == Condition(("left",))
    assert (found["turn"].labels, found["turn"].is_open) == (("left", "right"), False)
    assert (found["other"].labels, found["other"].is_open) == (("one", "right", "two"), False)
    assert (found["told"].labels, found["told"].is_open) == (("a", "b"), False)
    assert (found["free"].labels, found["free"].is_open) == ((), True)
    assert (found["ask"].is_router, found["ask"].labels) == (True, ("ok", "again"))


@pytest.mark.parametrize("entry_point", ["src/line/flow.yaml", "line.steps:make_flow"])
def test_a_declared_flow_is_also_found_through_a_function(entry_point: str) -> None:
    found = {one.name: one for one in flow_methods(LINE, entry_point)}
    assert list(found) == ["outline", "turn", "write_long", "write_short", "publish"]
    assert found["outline"].starts
    assert (found["turn"].labels, found["turn"].is_open) == (("long", "short"), False)


@pytest.mark.parametrize(
    "source", ["", "class A(Flow): pass", "class A(A): pass", "class A(B): ...\nclass B(A): ..."]
)
def test_source_without_methods_gives_nothing(tmp_path: Path, source: str) -> None:
    assert methods_of(tmp_path, source) == {}
    assert flow_methods(tmp_path, "gone:Flow") == ()
    assert flow_methods(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("rounds", "judged", "certain", "possible"),
    [
        (0, 0, ("write", "judge"), ("publish",)),
        (1, 0, ("judge",), ("write", "publish")),
        (1, 1, ("write", "judge"), ("publish",)),
        (2, 1, ("judge",), ("write", "publish")),
        (2, 2, ("write", "judge"), ("publish",)),
    ],
)
def test_the_methods_after_each_round_of_a_loop_are_known(
    rounds: int, judged: int, certain: tuple[str, ...], possible: tuple[str, ...]
) -> None:
    counts = {"write": rounds, "judge": judged}
    ahead = following(flow_methods(PRESS, LOOP), counts, {"judge": ["retry"] * judged})
    assert ahead == Following(certain, possible, (RETRY,))


def test_after_the_last_round_only_the_target_of_its_route_follows() -> None:
    methods, judged = flow_methods(PRESS, LOOP), {"judge": ["retry", "retry", "done"]}
    assert following(methods, {"write": 3, "judge": 3}, judged) == Following(("publish",))
    assert following(methods, {"write": 3, "judge": 3, "publish": 1}, judged) == Following()


def test_a_join_waits_for_all_and_an_alternative_runs_once() -> None:
    methods = flow_methods(PRESS, "press_flows:JoinedFlow")
    assert following(methods, {}, {}).certain == ("north", "south", "both", "either")
    assert following(methods, {"north": 1}, {}).certain == ("south", "both", "either")
    assert following(methods, {"north": 1, "south": 1, "both": 1}, {}).certain == ("either",)
    assert following(methods, {"north": 1, "south": 1, "both": 1, "either": 1}, {}) == Following()


def test_a_router_with_unknown_results_leads_to_all_unclaimed_routes() -> None:
    methods = (
        FlowMethod("a", starts=True, is_router=True, labels=("x",), is_open=True),
        FlowMethod("b", listens_to=Condition(("x", "y"))),
        FlowMethod("c", listens_to=Condition(("z",))),
        FlowMethod("d", listens_to=Condition(("b",))),
        FlowMethod("e", listens_to=Condition(("a",)), is_router=True, labels=("z",)),
    )
    ahead = following(methods, {}, {})
    assert ahead.certain == ("a", "e")
    assert ahead.possible == ("b", "d", "c")
    assert ahead.decisions == (
        Decision("a", (Route("x", ("b",)), Route("y", ("b",))), True),
        Decision("e", (Route("z", ("c",)),), False),
    )


def test_an_unrecorded_route_stays_open() -> None:
    ahead = following(flow_methods(PRESS, LOOP), {"write": 1, "judge": 1}, {})
    assert ahead == Following((), ("write", "publish"), (RETRY,))


def test_source_that_contradicts_the_checkpoint_is_reported() -> None:
    methods = flow_methods(PRESS, LOOP)
    assert not following(methods, {"write": 1, "gone": 1}, {}).fits
    assert not following(methods, {"publish": 1}, {}).fits
    assert not following(methods, {"write": 10**9}, {}).fits


def test_the_labels_of_a_router_with_any_number_of_branches_are_read(tmp_path: Path) -> None:
    branches = "".join(
        f"        elif self.state.n == {n}:\n            return 'l{n}'\n" for n in range(1_200)
    )
    source = (
        f"class A(Flow):\n    @router('a')\n    def b(self):\n        if 0:\n            pass\n{branches}"
    )
    assert len(methods_of(tmp_path, source)["b"].labels) == 1_200


def test_a_class_overrides_the_one_that_both_of_its_parents_inherit(tmp_path: Path) -> None:
    source = (
        "class Base(Flow):\n    @start()\n    def go(self): ...\n"
        "class First(Base): ...\n"
        "class Second(Base):\n    @listen('other')\n    def go(self): ...\n"
        "class A(First, Second): ...\n"
    )
    assert not methods_of(tmp_path, source)["go"].starts


def test_classes_that_inherit_others_in_many_ways_are_read_quickly(tmp_path: Path) -> None:
    levels = "".join(
        f"class A{n}(A{n + 1}, B{n + 1}): ...\nclass B{n}(A{n + 1}, B{n + 1}): ...\n" for n in range(20)
    )
    began = time.thread_time()
    methods_of(tmp_path, f"{levels}class A(A0): ...\n")
    assert time.thread_time() - began < 2
