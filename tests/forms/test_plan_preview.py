"""The preview of the plan in the form."""

from dataclasses import replace
from typing import Any

from tests.forms.samples import agent, crew, flow, task
from viewer.engines import engine_of
from viewer.engines.crewai.contents import Contents, contents_of
from viewer.engines.crewai.flow_plan import Condition, FlowMethod
from viewer.engines.crewai.planning import calls_of
from viewer.engines.crewai.recorded_events import Event, events_of
from viewer.engines.plan import Edits
from viewer.launching.labels import step_text
from viewer.launching.preview import PlanPreview

THREE = [task(1, "one"), task(2, "two"), task(3)]


def preview_plan(
    contents: Contents, edits: Edits, last: Contents | None = None, is_fork: bool = True, source: Any = None
) -> PlanPreview:
    plan = engine_of(contents).whole_plan(contents, edits, last, source, is_fork=is_fork)
    return PlanPreview(contents, plan, is_fork)


def previewed(contents: Contents, **edits: Any) -> list[tuple[str, str, bool]]:
    preview = preview_plan(contents, Edits(**edits))
    assert preview.refusals == []
    return [(shown.step.action.value, shown.choice, shown.is_chosen) for shown in preview.shown]


def test_finished_tasks_are_kept_and_may_run_again() -> None:
    assert previewed(crew(THREE, {})) == [
        ("kept", "again", False),
        ("kept", "again", False),
        ("runs", "", False),
    ]


def test_tasks_after_an_edit_run_again_and_may_be_kept() -> None:
    contents = crew(THREE, {})
    assert previewed(contents, outputs={"task-1": "x"})[:2] == [
        ("edited", "", False),
        ("again", "keep", False),
    ]
    kept = previewed(contents, outputs={"task-1": "x"}, keep=frozenset({"task-2"}))
    assert kept[1] == ("pinned", "keep", True)


def test_a_task_selected_to_run_again_can_be_deselected() -> None:
    assert previewed(crew(THREE, {}), again=frozenset({"task-2"}))[1] == ("again", "again", True)


def test_a_changed_input_makes_outputs_stale() -> None:
    preview = preview_plan(crew(THREE, {"topic": "AI"}), Edits(inputs={"topic": "ML"}))
    assert [shown.step.stale for shown in preview.shown] == [("topic",), ("topic",), ()]
    assert "topic" in preview.shown[0].stale


def test_an_input_in_an_expected_output_or_an_agents_texts_makes_outputs_stale() -> None:
    plain = {"checkpoint_original_description": "Work", "description": "Work"}
    tasks = [
        task(1, "one", **plain, checkpoint_original_expected_output="notes of {year}"),
        task(2, "two", **plain, agent={"role": "Researcher of green tea"}),
        task(3, "three", **plain, agent={"role": "Writer"}),
        task(4, "four", **plain, agent={"role": "Maître"}),
    ]
    agents = [
        {"id": "a", "role": "Researcher of green tea"},
        {"id": "b", "role": "Writer", "goal": "Write of green teapots", "backstory": "Knows 3 things"},
        {"id": "c", "role": "Maître", "goal": "Serve", "backstory": "Born in 2026."},
    ]
    contents = crew(tasks, {"topic": "green tea", "year": 2026, "count": 3, "short": True}, agents)
    edits = Edits(inputs={"topic": "coffee", "year": 2027, "count": 4, "short": False})
    assert [step.stale for step in preview_plan(contents, edits).steps] == [
        ("year",),
        ("topic",),
        (),
        ("year",),
    ]
    assert preview_plan(contents, Edits(inputs={"count": 4})).stale == []


def test_an_edited_output_is_not_stale() -> None:
    edits = Edits(
        inputs={"topic": "ML"}, outputs={"task-2": "mine"}, again=frozenset({"task-1"}), keep=frozenset()
    )
    steps = preview_plan(crew(THREE, {"topic": "AI"}), edits).steps
    assert [(step.action.value, step.stale) for step in steps] == [
        ("again", ()),
        ("pinned", ()),
        ("runs", ()),
    ]
    held = replace(edits, outputs={}, keep=frozenset({"task-2"}))
    assert preview_plan(crew(THREE, {"topic": "AI"}), held).steps[1].stale == ("topic",)


def test_a_conflict_is_refused_and_still_shown() -> None:
    edits = Edits(outputs={"task-1": "x"}, again=frozenset({"task-1"}))
    preview = preview_plan(crew(THREE, {}), edits)
    assert "Choose one" in preview.refusals[0]
    assert preview.shown[0].choice == "again" and preview.shown[0].is_chosen


def test_a_forged_choice_is_refused() -> None:
    preview = preview_plan(crew(THREE, {}), Edits(again=frozenset({"nobody"})))
    assert preview.refusals and preview.steps == []


def test_with_nothing_left_to_run_a_resume_is_refused_and_a_fork_is_allowed() -> None:
    done = crew([task(1, "one")], {})
    assert "Nothing is left to run" in preview_plan(done, Edits(), is_fork=False).refusals[0]
    forked = preview_plan(done, Edits())
    assert forked.refusals == [] and "no model is called" in forked.notes[0]
    edited = preview_plan(done, Edits(outputs={"task-1": "x"}))
    assert edited.refusals == [] and "only contains your edits" in edited.notes[0]


def test_the_plan_of_a_flow_without_source_warns_that_more_may_follow() -> None:
    preview = preview_plan(flow({"n": 1}), Edits())
    assert preview.refusals == [] and "does not say which methods follow" in preview.notes[0]
    assert [shown.choice for shown in preview.shown] == [""]
    assert preview.then == []


def test_the_plan_of_a_flow_with_source_lists_what_follows() -> None:
    outline = FlowMethod("outline", starts=True)
    publish = FlowMethod("publish", listens_to=Condition(("outline",)))
    preview = preview_plan(flow({"n": 1}), Edits(), source=(outline, publish))
    assert [(shown.step.unit, shown.action_label) for shown in preview.shown] == [
        ("outline", "reused"),
        ("publish", "runs"),
    ]
    assert preview.running_count == 1
    assert preview.notes == []
    ended = preview_plan(flow({"n": 1}), Edits(), source=(outline,))
    assert ended.refusals == [] and "nothing is left to run" in ended.notes[0]


def test_routers_are_shown_with_their_targets() -> None:
    def then(**router: Any) -> str:
        methods = (
            FlowMethod("outline", starts=True),
            FlowMethod("turn", listens_to=Condition(("outline",)), is_router=True, **router),
            FlowMethod("go", listens_to=Condition(("left",))),
        )
        (line,) = preview_plan(flow({}), Edits(), source=methods).then
        return line

    known = "Then, depending on the router turn: left → go; right → nothing follows."
    assert then(labels=("left", "right")) == known
    assert "as far as the code says: left → go." in then(is_open=True)
    assert "does not say what it returns" in then()


def test_an_agent_without_a_recorded_prompt_needs_one() -> None:
    assert preview_plan(agent("Ask me"), Edits()).refusals == []
    assert "Type it" in preview_plan(agent(None), Edits()).refusals[0]
    assert preview_plan(agent(None), Edits(inputs={"messages": "Ask"})).refusals == []


def test_a_checkpoint_with_nothing_runnable_is_refused() -> None:
    assert preview_plan(contents_of({"entities": []}), Edits()).refusals


def events(*recorded: tuple[str, str, int]) -> tuple[Event, ...]:
    nodes = {
        str(number): {
            "event": {
                "type": kind,
                "task_id": unit,
                "usage": {"total_tokens": tokens},
                "emission_sequence": number,
            }
        }
        for number, (kind, unit, tokens) in enumerate(recorded)
    }
    return events_of({"event_record": {"nodes": nodes}})


def test_the_cost_is_that_of_the_last_attempt_of_each_step() -> None:
    record = events(
        ("task_started", "a", 0),
        ("llm_call_completed", "a", 10),
        ("task_started", "b", 0),
        ("llm_call_completed", "b", 100),
        ("task_started", "b", 0),
        ("llm_call_completed", "b", 20),
        ("llm_call_completed", "b", 30),
    )
    counted = [
        sorted(call.tokens for call in calls_of(record, units, "crew"))
        for units in ({"b"}, {"a", "b"}, set())
    ]
    assert counted == [[20, 30], [10, 20, 30], []]
    assert [one.tokens for one in calls_of(events(("llm_call_completed", "", 7)), {"x"}, "agent")] == [7]


def test_the_cost_of_a_flow_is_that_of_the_previous_calls_after_the_checkpoint() -> None:
    early = flow({})
    late = replace(early, events=events(("llm_call_completed", "", 7), ("llm_call_completed", "", 5)))
    assert preview_plan(early, Edits(), late).tokens == 12
    assert preview_plan(replace(early, events=late.events[:1]), Edits(), late).tokens == 5
    assert preview_plan(late, Edits()).calls == 0


def test_a_step_is_described_in_one_line() -> None:
    step = preview_plan(crew(THREE, {"topic": "AI"}), Edits(inputs={"topic": "ML"})).steps[0]
    assert step_text(step) == (
        "1. Task 1 about AI: reused (finished; its output was produced with the former topic)"
    )
