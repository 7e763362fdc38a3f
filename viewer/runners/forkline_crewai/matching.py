"""Matches a checkpoint's tasks and agents to the project's, and texts to templates.

Does not import the engine.

by id                        if the project gives its tasks ids
by original text and role    if each is unique on both sides, and in the same order
by a person's answer         everything else: Forkline asks a question
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from forkline_runner.messages import Refused
from forkline_runner.reporting import shortened

# What the engine considers a placeholder.
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)}")
# The answer for a saved task or agent that the project no longer has.
GONE = "-"
MAX_TITLE = 160
UNKNOWN = {
    "agent": "crewai.unknown_project_agent",
    "task": "crewai.unknown_project_task",
}
TWICE = {
    "agent": "crewai.project_agent_chosen_twice",
    "task": "crewai.project_task_chosen_twice",
}
PartKind = Literal["task", "agent"]
# Why a question is asked: no equal text, several equal texts, another agent, another position.
MatchReason = Literal["changed", "twice", "role", "order"]


@dataclass(frozen=True, slots=True)
class CrewPart:
    """A task or an agent, of the checkpoint or of the project.

    ``key``: the id of a saved unit; the number of a project's task; the role of a project's agent.
    ``text``: a task's original description or an agent's role. ``agent``: the key of the task's agent.
    """

    key: str
    id: str
    text: str
    agent: str = ""
    # Of a saved unit: whether its text still has the placeholders, and whether it has finished.
    is_template: bool = True
    is_finished: bool = False


@dataclass(frozen=True, slots=True)
class MatchQuestion:
    """Asks which task or agent of the project corresponds to a saved one.

    ``choices`` has the keys and titles of the candidates, and GONE if the project may lack the saved unit.
    """

    kind: PartKind
    saved: str
    position: int
    title: str
    reason: MatchReason
    choices: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Matching:
    """The saved units and their counterparts in the project. Complete if there are no questions.

    ``pairs`` maps the id of a saved unit to the key of the project's, or to GONE.
    """

    pairs: dict[str, str] = field(default_factory=dict)
    questions: list[MatchQuestion] = field(default_factory=list)
    # The keys of the project's units that the checkpoint lacks.
    left_out: list[str] = field(default_factory=list)


class WrongAnswer(Refused):
    """An answer names an unknown task or agent, or two answers name the same one."""


def match_agents(
    saved: Sequence[CrewPart], current: Sequence[CrewPart], answers: Mapping[str, str]
) -> Matching:
    """Return the matching of agents by id and role. Raises WrongAnswer."""

    def fits(one: CrewPart, other: CrewPart) -> bool:
        return can_produce(other.text, one.text)

    return _match("agent", saved, current, answers, fits, fits)


def match_tasks(
    saved: Sequence[CrewPart], current: Sequence[CrewPart], answers: Mapping[str, str], agents: Matching
) -> Matching:
    """Return the matching of tasks by id, original description and role. Raises WrongAnswer.

    An agent without a match does not cause questions about its tasks.
    """

    def same_text(one: CrewPart, other: CrewPart) -> bool:
        if one.is_template:
            return one.text.strip() == other.text.strip()
        return can_produce(other.text, one.text)

    def fits(one: CrewPart, other: CrewPart) -> bool:
        agent = agents.pairs.get(one.agent, GONE)
        return same_text(one, other) and (GONE in (agent, other.agent or GONE) or agent == other.agent)

    return _match("task", saved, current, answers, fits, same_text)


def placeholders(text: str | None) -> set[str]:
    """Return the names of the text's placeholders."""
    return set(PLACEHOLDER.findall(text or ""))


def filled(text: str, inputs: Mapping[str, Any]) -> str:
    """Return the text with the inputs filled in, as the engine does. Others stay placeholders."""
    return PLACEHOLDER.sub(lambda found: str(inputs.get(found[1], found[0])), text)


def can_produce(template: str, text: str) -> bool:
    """Return whether the template can produce this text with some values for its placeholders."""
    text, (first, *rest) = text.strip(), PLACEHOLDER.split(template.strip())[::2]
    if not rest:
        return first == text
    if not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= at


def _match(
    kind: PartKind,
    saved: Sequence[CrewPart],
    current: Sequence[CrewPart],
    answers: Mapping[str, str],
    fits: Any,
    alike: Any,
) -> Matching:
    pairs = _answered(kind, saved, current, answers)
    answered = set(pairs)
    for one in saved:
        other = next((other for other in current if other.id == one.id), None)
        if one.key not in pairs and other and other.key not in pairs.values():
            pairs[one.key] = other.key
    open_saved = [one for one in saved if one.key not in pairs]
    open_current = [other for other in current if other.key not in pairs.values()]
    for one in open_saved:
        found = [other for other in open_current if fits(one, other)]
        if len(found) == 1 and sum(fits(another, found[0]) for another in open_saved) == 1:
            pairs[one.key] = found[0].key
    moved = _out_of_order(saved, current, pairs, answered) if kind == "task" else set()
    asked = [one for one in saved if one.key not in pairs or one.key in moved]
    for one in asked:
        pairs.pop(one.key, None)
    left = [other for other in current if other.key not in pairs.values()]
    return Matching(
        pairs,
        [_question(kind, one, saved.index(one) + 1, left, fits, alike, moved) for one in asked],
        [other.key for other in left],
    )


def _answered(
    kind: PartKind, saved: Sequence[CrewPart], current: Sequence[CrewPart], answers: Mapping[str, str]
) -> dict[str, str]:
    keys = {other.key for other in current}
    pairs = {one.key: answers[one.key] for one in saved if answers.get(one.key)}
    chosen = [key for key in pairs.values() if key != GONE]
    unknown = next((key for key in chosen if key not in keys), None)
    if unknown is not None:
        raise WrongAnswer(UNKNOWN[kind], unknown=unknown)
    twice = next((key for key in chosen if chosen.count(key) > 1), None)
    if twice is not None:
        raise WrongAnswer(TWICE[kind], twice=twice)
    for one in saved:
        if kind == "task" and pairs.get(one.key) == GONE and not one.is_finished:
            raise WrongAnswer("crewai.task_needs_match", title=_title(one))
    return pairs


def _out_of_order(
    saved: Sequence[CrewPart], current: Sequence[CrewPart], pairs: Mapping[str, str], answered: Iterable[str]
) -> set[str]:
    """Return the keys of saved tasks that the project has in another order, except the answered ones."""
    project_positions = {other.key: position for position, other in enumerate(current)}
    matched = [
        (one.key, project_positions[pairs[one.key]])
        for one in saved
        if pairs.get(one.key, GONE) != GONE and one.key not in answered
    ]
    return {
        key
        for index, (key, position) in enumerate(matched)
        if any(before > position for _, before in matched[:index])
        or any(after < position for _, after in matched[index + 1 :])
    }


def _question(
    kind: PartKind,
    one: CrewPart,
    position: int,
    left: Sequence[CrewPart],
    fits: Any,
    alike: Any,
    moved: Iterable[str],
) -> MatchQuestion:
    reason: MatchReason = "changed"
    if one.key in moved:
        reason = "order"
    elif any(fits(one, other) for other in left):
        reason = "twice"
    elif any(alike(one, other) for other in left):
        reason = "role"
    choices = [(other.key, _title(other)) for other in left]
    if kind == "agent" or one.is_finished:
        choices.append((GONE, ""))
    return MatchQuestion(kind, one.key, position, _title(one), reason, tuple(choices))


def _title(one: CrewPart) -> str:
    return shortened(" ".join(one.text.split()), MAX_TITLE)
