"""The plan predicts an engine that runs everything after the first task without an output."""

import itertools
from collections.abc import Iterator

import pytest

from viewer.engines.crewai.planning import plan_agent, plan_crew, plan_flow, plan_of
from viewer.engines.plan import Action, EditRefused, Edits, Reason, Step, Unit

CALLED = {Action.AGAIN, Action.RUNS}


def crew_of(done: int, total: int = 4, template: str = "") -> list[Unit]:
    return [
        Unit(id=str(number), title=f"task {number}", done=number <= done, template=template)
        for number in range(1, total + 1)
    ]


def actions(steps: list[Step]) -> list[str]:
    return [step.action.value for step in steps]


def choices(total: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield every number of finished tasks with every choice for each task."""
    for done in range(total + 1):
        for choice in itertools.product(("", "edit", "again", "keep"), repeat=total):
            yield done, choice


def edits_of(choice: tuple[str, ...]) -> Edits:
    ids = {word: frozenset(str(i) for i, chosen in enumerate(choice, 1) if chosen == word) for word in choice}
    return Edits(
        outputs=dict.fromkeys(ids.get("edit", ()), "new"),
        again=ids.get("again", frozenset()),
        keep=ids.get("keep", frozenset()),
    )


def planned() -> Iterator[tuple[int, tuple[str, ...], list[Step]]]:
    for done, choice in choices(4):
        try:
            yield done, choice, plan_crew(crew_of(done), edits_of(choice))
        except EditRefused:
            continue


def test_unfinished_tasks_run_and_selected_ones_run_again() -> None:
    for done, choice, steps in planned():
        for step in steps:
            if step.position > done:
                assert step.action is Action.RUNS
            elif choice[step.position - 1] == "again":
                assert step.action is Action.AGAIN


def test_an_edit_or_a_kept_task_is_never_called() -> None:
    for done, choice, steps in planned():
        for step in steps:
            if choice[step.position - 1] in {"edit", "keep"}:
                assert step.action not in CALLED, (done, choice)


def test_a_finished_task_runs_only_if_selected_or_after_a_change() -> None:
    for done, choice, steps in planned():
        for step in steps[:done]:
            in_front = steps[: step.position - 1]
            changed = any(other.action in CALLED | {Action.EDITED} for other in in_front)
            free = choice[step.position - 1] == ""
            assert (step.action is Action.AGAIN) == (
                choice[step.position - 1] == "again" or (free and changed)
            )


def test_finished_tasks_that_the_engine_would_run_are_pinned() -> None:
    for _, _, steps in planned():
        first_call = next((step.position for step in steps if step.action in CALLED), len(steps) + 1)
        for step in steps:
            if step.position > first_call:
                assert step.action in CALLED | {Action.PINNED}


def test_only_conflicting_edits_are_refused() -> None:
    tried = 0
    for done, choice in choices(4):
        impossible = any(word in {"edit", "keep"} for word in choice[done:])
        try:
            plan_crew(crew_of(done), edits_of(choice))
            refused = False
        except EditRefused:
            refused = True
        assert refused == impossible, (done, choice)
        tried += 1
    assert tried == 5 * 4**4


def test_tasks_after_an_edit_name_the_reason_to_run() -> None:
    steps = plan_crew(crew_of(done=3), Edits(outputs={"1": "new"}))
    assert actions(steps) == ["edited", "again", "again", "runs"]
    assert [step.reason for step in steps] == [
        Reason.EDITED,
        Reason.READS_EDITED,
        Reason.BEHIND_RERUN,
        Reason.UNFINISHED,
    ]


def test_an_edit_after_a_task_that_runs_again_is_pinned() -> None:
    steps = plan_crew(crew_of(done=3), Edits(outputs={"3": "new"}, again=frozenset({"1"})))
    assert actions(steps) == ["again", "again", "pinned", "runs"]


def test_a_skipped_task_does_not_rerun_finished_ones() -> None:
    units = [Unit("1", "one", done=True), Unit("2", "two"), Unit("3", "three", done=True), Unit("4", "four")]
    steps = plan_crew(units, Edits())
    assert actions(steps) == ["kept", "runs", "kept", "runs"]
    assert [step.reason for step in steps[1::2]] == [Reason.PASSED_OVER, Reason.UNFINISHED]
    assert actions(plan_crew(units, Edits(again=frozenset({"1"})))) == ["again", "runs", "again", "runs"]


def test_changed_inputs_keep_finished_tasks_and_mark_them_as_stale() -> None:
    steps = plan_crew(
        crew_of(2, 3, template="About {topic} in {year}"), Edits(inputs={"topic": "tea", "n": 1})
    )
    assert actions(steps) == ["kept", "kept", "runs"]
    assert [step.stale for step in steps] == [("topic",), ("topic",), ()]


def test_a_selected_stale_task_runs_again_with_all_later_ones() -> None:
    edits = Edits(inputs={"topic": "tea"}, again=frozenset({"1"}))
    steps = plan_crew(crew_of(2, 3, template="About {topic}"), edits)
    assert actions(steps) == ["again", "again", "runs"]
    assert steps[0].reason is Reason.STALE_INPUT


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        (Edits(outputs={"9": "x"}), "no task '9'"),
        (Edits(again=frozenset({"9"})), "no task '9'"),
        (Edits(keep=frozenset({"9"})), "no task '9'"),
        (Edits(outputs={"3": "x"}), "Task 3 has not finished"),
        (Edits(keep=frozenset({"3"})), "Task 3 has not finished"),
        (Edits(outputs={"1": "x"}, again=frozenset({"1"})), "Task 1 cannot both run again and have"),
        (Edits(keep=frozenset({"1"}), again=frozenset({"1"})), "Task 1 cannot both run again and be kept"),
        (Edits(state={"a": 1}), "no state"),
    ],
)
def test_a_crew_refuses_with_the_reason(edits: Edits, text: str) -> None:
    with pytest.raises(EditRefused, match=text):
        plan_crew(crew_of(2), edits)


def test_a_flow_keeps_finished_methods_and_runs_the_rest_with_the_edited_state() -> None:
    assert actions(plan_flow(crew_of(1, 3), Edits(state={"topic": "tea"}))) == ["kept", "runs", "runs"]


@pytest.mark.parametrize(
    "edits", [Edits(outputs={"1": "x"}), Edits(inputs={"a": 1}), Edits(again=frozenset({"1"}))]
)
def test_only_the_state_of_a_flow_can_be_edited(edits: Edits) -> None:
    with pytest.raises(EditRefused):
        plan_flow(crew_of(1, 3), edits)


def test_an_agent_is_one_step_that_runs_again_after_a_changed_input() -> None:
    assert actions(plan_agent(crew_of(0, 1), Edits())) == ["runs"]
    assert actions(plan_agent(crew_of(1, 1), Edits())) == ["kept"]
    assert actions(plan_agent(crew_of(1, 1), Edits(inputs={"messages": "x"}))) == ["again"]
    assert actions(plan_agent(crew_of(1, 1), Edits(again=frozenset({"1"})))) == ["again"]


def test_a_checkpoint_without_a_root_cannot_be_run() -> None:
    with pytest.raises(EditRefused, match="no crew, flow or agent"):
        plan_of("unknown", [], Edits())


def mixed_crew(done: str, beside: str = "", conditional: str = "") -> list[Unit]:
    """A crew of five. Each text has the numbers of the tasks that it is about."""
    return [
        Unit(one, one, done=one in done, runs_beside=one in beside, is_conditional=one in conditional)
        for one in "12345"
    ]


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (Edits(outputs={"2": "new"}), "kept edited kept again again"),
        (Edits(outputs={"3": "new"}), "kept kept edited again again"),
        (Edits(again=frozenset("2")), "kept again kept again again"),
        (Edits(outputs={"2": "new"}, again=frozenset("3")), "kept edited again again again"),
        (Edits(outputs={"1": "new"}), "edited again again again again"),
        (Edits(outputs={"4": "new"}), "kept kept kept edited again"),
    ],
)
def test_async_tasks_that_run_at_the_same_time_do_not_read_each_other(edits: Edits, expected: str) -> None:
    assert actions(plan_crew(mixed_crew("12345", beside="23"), edits)) == expected.split()


def test_a_later_group_of_async_tasks_reads_what_was_edited_before_it() -> None:
    steps = plan_crew(mixed_crew("12345", beside="1245"), Edits(outputs={"1": "new"}))
    assert actions(steps) == ["edited", "kept", "again", "again", "again"]
    # A condition is evaluated once the async tasks before it have ended.
    steps = plan_crew(mixed_crew("12345", beside="12345", conditional="3"), Edits(outputs={"1": "new"}))
    assert actions(steps) == ["edited", "kept", "again", "again", "again"]


def test_a_task_with_a_condition_may_run() -> None:
    steps = plan_crew(mixed_crew("12", conditional="3"), Edits())
    assert actions(steps) == ["kept", "kept", "may", "runs", "runs"]
    assert steps[2].reason is Reason.CONDITION
    skipped = plan_crew(mixed_crew("134", conditional="2"), Edits())
    assert actions(skipped) == ["kept", "may", "kept", "kept", "runs"]
    again = plan_crew(mixed_crew("1234", conditional="3"), Edits(outputs={"1": "new"}))
    assert [(step.action, step.reason) for step in again[1:3]] == [
        (Action.AGAIN, Reason.READS_EDITED),
        (Action.AGAIN, Reason.CONDITION),
    ]
