"""The plan says what an engine will do that runs everything from the first task without an output on."""

import itertools
from collections.abc import Iterator

import pytest

from viewer.engines.crewai.planning.plan import plan_agent, plan_crew, plan_flow, plan_of
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
    """Every number of finished tasks, with every choice for each task."""
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


def test_every_unfinished_task_runs_and_every_asked_one_runs_again() -> None:
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


def test_a_finished_task_is_called_only_where_asked_or_behind_a_change() -> None:
    for done, choice, steps in planned():
        for step in steps[:done]:
            in_front = steps[: step.position - 1]
            changed = any(other.action in CALLED | {Action.EDITED} for other in in_front)
            free = choice[step.position - 1] == ""
            assert (step.action is Action.AGAIN) == (
                choice[step.position - 1] == "again" or (free and changed)
            )


def test_what_the_engine_would_call_and_must_not_is_pinned() -> None:
    for _, _, steps in planned():
        first_call = next((step.position for step in steps if step.action in CALLED), len(steps) + 1)
        for step in steps:
            if step.position > first_call:
                assert step.action in CALLED | {Action.PINNED}


def test_exactly_the_edits_that_cannot_hold_are_refused() -> None:
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


def test_a_task_behind_an_edit_says_that_it_reads_it_and_the_next_that_it_follows() -> None:
    steps = plan_crew(crew_of(done=3), Edits(outputs={"1": "new"}))
    assert actions(steps) == ["edited", "again", "again", "runs"]
    assert [step.reason for step in steps] == [
        Reason.EDITED,
        Reason.READS_EDITED,
        Reason.BEHIND_RERUN,
        Reason.UNFINISHED,
    ]


def test_an_edit_behind_a_task_that_runs_again_is_pinned() -> None:
    steps = plan_crew(crew_of(done=3), Edits(outputs={"3": "new"}, again=frozenset({"1"})))
    assert actions(steps) == ["again", "again", "pinned", "runs"]


def test_a_task_that_was_passed_over_takes_no_finished_one_along() -> None:
    units = [Unit("1", "one", done=True), Unit("2", "two"), Unit("3", "three", done=True), Unit("4", "four")]
    steps = plan_crew(units, Edits())
    assert actions(steps) == ["kept", "runs", "kept", "runs"]
    assert [step.reason for step in steps[1::2]] == [Reason.PASSED_OVER, Reason.UNFINISHED]
    assert actions(plan_crew(units, Edits(again=frozenset({"1"})))) == ["again", "runs", "again", "runs"]


def test_changed_inputs_keep_finished_tasks_and_name_what_their_text_was_made_with() -> None:
    steps = plan_crew(
        crew_of(2, 3, template="About {topic} in {year}"), Edits(inputs={"topic": "tea", "n": 1})
    )
    assert actions(steps) == ["kept", "kept", "runs"]
    assert [step.stale for step in steps] == [("topic",), ("topic",), ()]


def test_a_stale_task_that_is_asked_for_runs_again_with_all_behind_it() -> None:
    edits = Edits(inputs={"topic": "tea"}, again=frozenset({"1"}))
    steps = plan_crew(crew_of(2, 3, template="About {topic}"), edits)
    assert actions(steps) == ["again", "again", "runs"]
    assert steps[0].reason is Reason.STALE_INPUT


@pytest.mark.parametrize(
    ("edits", "words"),
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
def test_a_crew_refuses_with_the_reason(edits: Edits, words: str) -> None:
    with pytest.raises(EditRefused, match=words):
        plan_crew(crew_of(2), edits)


def test_a_flow_keeps_what_finished_and_runs_the_rest_with_the_edited_state() -> None:
    assert actions(plan_flow(crew_of(1, 3), Edits(state={"topic": "tea"}))) == ["kept", "runs", "runs"]


@pytest.mark.parametrize(
    "edits", [Edits(outputs={"1": "x"}), Edits(inputs={"a": 1}), Edits(again=frozenset({"1"}))]
)
def test_a_flow_refuses_all_but_its_state(edits: Edits) -> None:
    with pytest.raises(EditRefused):
        plan_flow(crew_of(1, 3), edits)


def test_a_lone_agent_is_one_step_that_runs_again_when_its_input_changed() -> None:
    assert actions(plan_agent(crew_of(0, 1), Edits())) == ["runs"]
    assert actions(plan_agent(crew_of(1, 1), Edits())) == ["kept"]
    assert actions(plan_agent(crew_of(1, 1), Edits(inputs={"messages": "x"}))) == ["again"]
    assert actions(plan_agent(crew_of(1, 1), Edits(again=frozenset({"1"})))) == ["again"]


def test_a_checkpoint_without_a_root_cannot_be_run() -> None:
    with pytest.raises(EditRefused, match="no crew, flow or agent"):
        plan_of("unknown", [], Edits())
