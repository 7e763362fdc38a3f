"""Tasks and agents of the project are matched with those of a checkpoint. Uncertain matches are questions."""

import pytest

from forkline_crewai.components import (
    GONE,
    CrewPart,
    Matching,
    WrongAnswer,
    can_produce,
    match_agents,
    match_tasks,
)

WRITER, EDITOR = CrewPart("w", "w", "Writer on tea"), CrewPart("e", "e", "Editor")
OWN_WRITER, OWN_EDITOR = (
    CrewPart("Writer on {topic}", "1", "Writer on {topic}"),
    CrewPart("Editor", "2", "Editor"),
)
AGENTS = match_agents([WRITER, EDITOR], [OWN_EDITOR, OWN_WRITER], {})


def saved(key: str, text: str, agent: str = "w", **more: bool) -> CrewPart:
    return CrewPart(key, key, text, agent, **more)


def own(number: int, text: str, agent: str = "Writer on {topic}", id: str = "") -> CrewPart:
    return CrewPart(str(number), id or f"own-{number}", text, agent)


def tasks(checkpoint: list[CrewPart], project: list[CrewPart], **answers: str) -> Matching:
    return match_tasks(checkpoint, project, answers, AGENTS)


def reasons(matching: Matching) -> dict[str, str]:
    return {question.saved: question.reason for question in matching.questions}


def test_agents_are_matched_by_the_role_that_their_template_produces() -> None:
    assert AGENTS.pairs == {"w": "Writer on {topic}", "e": "Editor"}
    assert not AGENTS.questions and not AGENTS.left_out


def test_a_template_matches_only_texts_that_it_can_produce() -> None:
    assert (
        can_produce("{a} of {b}\n", "One of two")
        and can_produce("plain", " plain\n")
        and can_produce("x{a}x", "xx")
    )
    assert (
        not can_produce("{a} of {b}", "One and two")
        and not can_produce("x{a}x", "x")
        and not can_produce("plain", "plainer")
    )
    assert not can_produce("Write {a}", "Rewrite it") and not can_produce("ab{a}ba", "aba")


def test_an_unchanged_crew_is_matched_without_a_question() -> None:
    found = tasks(
        [saved("a", "Collect {x}"), saved("b", "Check")], [own(1, "Collect {x}\n"), own(2, "Check")]
    )
    assert found.pairs == {"a": "1", "b": "2"}
    assert not found.questions and not found.left_out


def test_an_id_takes_precedence_over_a_text() -> None:
    found = tasks(
        [saved("a", "Same"), saved("b", "Same")], [own(1, "New words", id="a"), own(2, "Same", id="b")]
    )
    assert found.pairs == {"a": "1", "b": "2"}
    assert not found.questions


def test_tasks_with_the_same_text_are_matched_by_their_agents_or_raise_a_question() -> None:
    apart = tasks(
        [saved("a", "Look it over"), saved("b", "Look it over", "e")],
        [own(1, "Look it over"), own(2, "Look it over", "Editor")],
    )
    assert apart.pairs == {"a": "1", "b": "2"}
    asked = tasks(
        [saved("a", "Same"), saved("b", "Same"), saved("c", "Other")],
        [own(1, "Same"), own(2, "Same"), own(3, "Other")],
    )
    assert asked.pairs == {"c": "3"}
    assert reasons(asked) == {"a": "twice", "b": "twice"}
    assert asked.questions[0].choices == (("1", "Same"), ("2", "Same"))


def test_a_changed_text_raises_a_question_and_a_finished_task_may_be_gone() -> None:
    project = [own(1, "Collect"), own(2, "Check it twice")]
    unfinished = tasks([saved("a", "Collect"), saved("b", "Check")], project)
    assert reasons(unfinished) == {"b": "changed"}
    assert unfinished.questions[0].choices == (("2", "Check it twice"),)
    finished = tasks([saved("a", "Collect"), saved("b", "Check", is_finished=True)], project)
    assert [key for key, _ in finished.questions[0].choices] == ["2", GONE]


def test_the_same_text_with_another_agent_raises_a_question() -> None:
    found = tasks([saved("a", "Collect")], [own(1, "Collect", "Editor")])
    assert reasons(found) == {"a": "role"}


def test_an_added_task_is_listed_and_a_removed_one_raises_a_question() -> None:
    more = tasks([saved("a", "Collect")], [own(1, "Collect"), own(2, "Print")])
    assert (more.pairs, more.questions, more.left_out) == ({"a": "1"}, [], ["2"])
    less = tasks([saved("a", "Collect"), saved("b", "Print", is_finished=True)], [own(1, "Collect")])
    assert reasons(less) == {"b": "changed"}
    assert less.questions[0].choices == ((GONE, ""),)


def test_reordered_tasks_raise_questions() -> None:
    found = tasks(
        [saved("a", "A"), saved("b", "B"), saved("c", "C")], [own(1, "A"), own(2, "C"), own(3, "B")]
    )
    assert found.pairs == {"a": "1"}
    assert reasons(found) == {"b": "order", "c": "order"}


def test_answers_complete_the_matching() -> None:
    found = tasks(
        [saved("a", "A"), saved("b", "Old B", is_finished=True), saved("c", "C")],
        [own(1, "A"), own(2, "C"), own(3, "B")],
        b="3",
        c="2",
    )
    assert found.pairs == {"a": "1", "b": "3", "c": "2"}
    assert not found.questions and not found.left_out
    missing = tasks([saved("a", "A", is_finished=True)], [own(1, "B")], a=GONE)
    assert (missing.pairs, missing.questions, missing.left_out) == ({"a": GONE}, [], ["1"])


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({"a": "9"}, "has no task '9'"),
        ({"a": "1", "b": "1"}, "chosen for two"),
        ({"a": GONE}, "has not finished"),
    ],
)
def test_an_impossible_answer_is_refused(answers: dict[str, str], text: str) -> None:
    with pytest.raises(WrongAnswer, match=text):
        tasks([saved("a", "A"), saved("b", "B")], [own(1, "X"), own(2, "Y")], **answers)


def test_a_new_role_raises_one_question_and_none_for_its_tasks() -> None:
    agents = match_agents([WRITER, EDITOR], [CrewPart("Poet", "1", "Poet"), OWN_EDITOR], {})
    assert reasons(agents) == {"w": "changed"}
    assert agents.questions[0].choices == (("Poet", "Poet"), (GONE, ""))
    found = match_tasks(
        [saved("a", "A"), saved("b", "B", "e")], [own(1, "A", "Poet"), own(2, "B", "Editor")], {}, agents
    )
    assert found.pairs == {"a": "1", "b": "2"}
    assert not found.questions


def test_texts_of_the_first_engines_already_contain_the_inputs() -> None:
    found = tasks(
        [saved("a", "Collect tea in 2026", is_template=False)], [own(1, "Collect {topic} in {year}")]
    )
    assert found.pairs == {"a": "1"}
