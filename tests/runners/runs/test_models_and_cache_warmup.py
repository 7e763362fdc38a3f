"""Another model for a fork's agents, and the calls that warm the prompt cache before the first task."""

from pathlib import Path
from typing import Any

from tests.engine_runs.checkpoints import after_task, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, marks, request_for
from tests.runners.conftest import Engine
from viewer.engines.plan import Edits

EACH = 12
# As in press_crew.py.
RULES = "One of the press who never invents, never shouts and always names the source. " * 14


def request(stores: Path, **options: Any) -> dict[str, Any]:
    """Return a fork with one finished task: both agents are called for the others."""
    edits = Edits(inputs={"topic": "tea", "year": 1999})
    asked = request_for(after_task(stores / "crew", 1), stores / "crew", edits=edits)
    return {**asked, "options": options}


def systems(model: TestModel) -> list[str]:
    return [body["messages"][0]["content"] for body in model.requests]


def probes(model: TestModel) -> list[bool]:
    """Return the calls that may answer with one token only."""
    return [body.get("max_tokens") == 1 for body in model.requests]


def test_another_model_for_a_role_and_a_cache_warmup(engine: Engine, stores: Path) -> None:
    before = marks(stores / "crew")
    run = engine.completed(request(stores, models={"Writer": "gpt-4.1"}, cache_warmup="sequential"))
    assert probes(engine.model) == [True, True, False, False, False]
    assert [body["model"] for body in engine.model.requests] == [
        "gpt-4o-mini",
        "gpt-4.1",
        "gpt-4o-mini",
        "gpt-4.1",
        "gpt-4.1",
    ]
    # Equal to the letter, or the provider's cache would miss.
    assert systems(engine.model)[:2] == systems(engine.model)[2:4]
    assert [body["messages"][0]["role"] for body in engine.model.requests[:2]] == ["system", "system"]
    assert set(engine.model.keys) == {f"Bearer {KEY}"}
    assert run.of("cache_warmed") == [
        {
            "agents": ["Researcher of AI", "Writer"],
            "strategy": "sequential",
            "tokens": 2 * EACH,
            "total_tokens": 2 * EACH,
        }
    ]
    kinds = [line["kind"] for line in run.lines]
    assert kinds.index("cache_warmed") < kinds.index("task_started")
    assert run.of("model_completed")[-1]["total_tokens"] == 5 * EACH
    # The record has only the run's own calls, and the branch continues with the chosen model.
    last = written(stores / "crew", before)[-1]
    calls = [node["event"]["type"] for node in last.body["event_record"]["nodes"].values()]
    assert calls.count("llm_call_completed") == 1 + 3
    assert [agent["llm"]["model"] for agent in last.root["agents"]] == ["gpt-4o-mini", "gpt-4.1"]


def test_the_shared_prefix_is_sent_first_and_agents_keep_their_settings(engine: Engine, stores: Path) -> None:
    researcher, writer = after_task(stores / "crew", 1).root["agents"]
    matches = {researcher["id"]: RULES + "Researcher of {topic}", writer["id"]: RULES + "Writer"}
    asked = request(stores, models={"*": "gpt-4.1"}, cache_warmup="shared_prefix", matches=matches)
    run = engine.completed({**asked, "entry_point": "press_crew:with_rules"})
    assert probes(engine.model) == [True, True, True, False, False, False]
    shared, *whole = systems(engine.model)[:3]
    assert len(shared) >= 1024
    assert all(text.startswith(shared) for text in whole) and whole[0][len(shared)] != whole[1][len(shared)]
    # It contains the inputs of this fork, as the following calls do.
    assert sorted(whole) == sorted(systems(engine.model)[3:5])
    assert any("Researcher of tea" in text for text in whole)
    assert {body["model"] for body in engine.model.requests} == {"gpt-4.1"}
    assert {body["temperature"] for body in engine.model.requests} == {0.3}
    (line,) = run.of("cache_warmed")
    assert (len(line["agents"]), line["tokens"]) == (2, 3 * EACH)


def test_a_failed_warmup_call_causes_a_warning_and_does_not_stop_the_run(
    engine: Engine, stores: Path
) -> None:
    engine.model.refusals["one word: ready"] = 400
    # The common prefix is too short to be sent alone.
    run = engine.completed(request(stores, cache_warmup="shared_prefix"))
    assert probes(engine.model) == [True, True, False, False, False]
    reported = [line["message"] for line in run.of("warning") if "prompt cache" in line["message"]]
    assert len(reported) == 2 and "'Writer'" in reported[0] + reported[1]
    assert run.of("cache_warmed")[0]["agents"] == []
    assert ["Current Task: " in prompt for prompt in engine.model.prompts()] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_a_model_for_an_unknown_role_is_refused_before_any_call(engine: Engine, stores: Path) -> None:
    error = engine.refused(request(stores, models={"Printer": "gpt-4.1"}))
    assert "'Printer'" in error
