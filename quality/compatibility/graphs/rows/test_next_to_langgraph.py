"""Each scenario on both kinds of stores: the same nodes run, models are sent the same, the result agrees."""

import json
from typing import Any

import pytest

from quality.compatibility.graphs.rows.scenarios import DURABILITY, NO_DURABILITY, SCENARIOS, Scenario
from quality.compatibility.graphs.table import CELL, ROW
from tests.engine_runs.runs import Ended
from tests.engine_runs.sides import Done, Side, Store

THREAD = "thread"
Record = Any


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one.name for one in SCENARIOS])
def test_forkline_does_what_langgraph_does(scenario: Scenario, store: Store, record_property: Record) -> None:
    record_property(ROW, f"like LangGraph: {scenario.name} ({store.name})")
    if lacks := lacking(store.recorded, scenario):
        record_property(CELL, lacks)
        return
    if not recorded(store, scenario):
        record_property(CELL, "LangGraph cannot store it")
        return
    ours, theirs = store.copy("ours"), store.copy("theirs")
    before = ours.rows()
    if scenario.refused[0] == store.name:
        assert scenario.refused[1] in run(ours, scenario).end["error"]
        assert ours.nodes() == [] and ours.rows() == before
        record_property(CELL, "refused")
        return
    done = by_forkline(ours, scenario)
    assert done.nodes == list(scenario.nodes)
    if scenario.kind == "fork":
        assert ours.rows() == before
    if not can_do(theirs, scenario):
        record_property(CELL, "pass; LangGraph cannot")
    elif done != (own := by_langgraph(theirs, scenario)):
        assert applies_old_writes(theirs, scenario) and set(own.nodes) <= set(done.nodes)
        # What the update chooses itself runs again, after what it wrote before.
        assert own.nodes != done.nodes or any("goto" in action for action in scenario.actions)
        record_property(CELL, "pass; LangGraph applies old writes")


def applies_old_writes(side: Side, scenario: Scenario) -> bool:
    """Whether update_state gives its new checkpoint what the nodes wrote that ran after the old one.

    Those nodes do not run again, with the edited state.
    """
    changes = any("values" in action and "as_node" not in action for action in scenario.actions)
    return changes and (0, 3) < side.version < (1, 0)


def lacking(side: Side, scenario: Scenario) -> str:
    """What this version lacks for a scenario; empty if it lacks nothing."""
    if side.version < DURABILITY and any(action.get("late") for action in scenario.recording):
        return NO_DURABILITY
    return scenario.missing if scenario.missing and not has_graph(side, scenario.graph) else ""


def has_graph(side: Side, entry_point: str) -> bool:
    """Whether this version can make the graph."""
    module, _colon, name = entry_point.partition(":")
    return side.by_engine(f"import {module}; print({module}.{name} is not None)").strip().endswith("True")


def can_do(side: Side, scenario: Scenario) -> bool:
    """Whether LangGraph's own API can do this: replacing came late."""
    needed = any("overwrite" in action for action in scenario.actions)
    return not needed or side.by_engine(
        "import langgraph.types as types; print(hasattr(types, 'Overwrite'))"
    ).strip().endswith("True")


def recorded(store: Store, scenario: Scenario) -> bool:
    """Run the graph up to its end, its failure or its question. Return whether LangGraph can store it."""
    side = store.recorded
    failing = side.folder / f"fail-{scenario.failing}"
    if scenario.failing:
        failing.touch()
    actions = scenario.recording or ({"input": scenario.given},)
    try:
        side.run_langgraph(scenario.graph, THREAD, actions, **options_of(scenario), in_turn=scenario.in_turn)
    except AssertionError as error:
        # The metadata of old versions have the values, as JSON.
        if scenario.serializer == "pickled" and "is not JSON serializable" in str(error):
            return False
        raise
    if scenario.failing:
        failing.unlink()
    side.forget()
    return True


def options_of(scenario: Scenario) -> dict[str, Any]:
    return {"async": scenario.is_async, "serializer": scenario.serializer}


def by_forkline(side: Side, scenario: Scenario) -> Done:
    """Have Forkline's runner do it."""
    ended = run(side, scenario)
    assert ended.end["status"] == "succeeded", ended.end
    stopped = ended.of("breakpoint")
    return Done(side.nodes(), side.sent(), plain(ended.end["result"]), stopped[0]["nodes"] if stopped else [])


def run(side: Side, scenario: Scenario) -> Ended:
    """Run the scenario's request."""
    request = side.request(scenario.kind, scenario.graph, THREAD, scenario.at, **scenario.request)
    # Old versions and pickles name what a person agrees to; test_effects tests the consent.
    return side.run(request | {"accepted_effects": ["*"]})


def by_langgraph(side: Side, scenario: Scenario) -> Done:
    """Do it with LangGraph itself."""
    chosen = side.checkpoints(THREAD)[scenario.at]
    first = {} if scenario.kind == "resume" else {"at": chosen}
    actions = [{**first, **action} for action in scenario.actions]
    try:
        found = side.run_langgraph(scenario.graph, THREAD, actions, **options_of(scenario))
    except AssertionError as error:
        if "Ambiguous update" not in str(error):
            raise
        return Done([], [], "", [])
    return Done(side.nodes(), side.sent(), plain(found["result"]), found["next"])


def plain(result: Any) -> Any:
    """A result as JSON if it is that, else as text."""
    if not isinstance(result, str):
        return result
    try:
        return json.loads(result)
    except ValueError:
        return result
