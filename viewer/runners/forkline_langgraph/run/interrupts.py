"""Asks a person about a graph's interrupts, and turns the answers into values to resume the graph with."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forkline_langgraph.report.events import plain
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions

# The keys of an interrupt's value that usually hold the question.
PROMPTS = ("question", "prompt", "message", "instruction", "description", "text")
CHOICES = ("options", "choices", "actions")


@dataclass(frozen=True)
class Waiting:
    """An interrupt that nobody has answered. ``id`` is empty in versions that give it none.

    ``schema`` is the JSON schema of the answer, or None.
    """

    id: str
    node: str
    value: Any
    schema: Mapping[str, Any] | None = None


def waiting_in(state: Any, finished: Collection[str]) -> list[Waiting]:
    """Return the interrupts of a graph's state, in order and each once, including those of subgraphs.

    The state repeats those that a finished task had; ``finished`` are the ids of such tasks.
    """
    found: dict[str, Waiting] = {}
    for task in state.tasks:
        if task.id in finished:
            continue
        for one in task.interrupts:
            identifier = str(getattr(one, "id", "") or getattr(one, "interrupt_id", "") or "")
            schema = getattr(one, "response_schema", None)
            asked = Waiting(
                identifier, str(task.name), one.value, schema if isinstance(schema, dict) else None
            )
            found.setdefault(identifier or str(len(found)), asked)
    return list(found.values())


def is_refused_answer(error: Exception) -> bool:
    """Return whether a node has refused an answer that does not fit the class that it asked for."""
    from langgraph import errors

    # Since 1.2.
    known = getattr(errors, "is_invalid_resume", None)
    return bool(known and known(error))


def ask(waiting: list[Waiting], questions: Questions, refused: str = "") -> Any:
    """Ask about each interrupt in turn. Return the value to resume the graph with. Raises Refused.

    ``refused`` says why the graph has refused the last answer; empty if it has not.
    """
    if len(waiting) == 1:
        return _asked(waiting[0], questions, refused)
    if not all(one.id for one in waiting):
        raise Refused("langgraph.several_interrupts")
    return {one.id: _asked(one, questions, refused) for one in waiting}


def resumption(answers: Mapping[str, Any], waiting: list[Waiting]) -> Any:
    """Return the value to resume the graph with. ``answers`` are by interrupt id; a single id may be empty.

    An interrupt without an answer asks again. Raises Refused if an answer fits no waiting interrupt.
    """
    if not waiting:
        raise Refused("langgraph.nothing_waits")
    if len(waiting) == 1 and set(answers) <= {"", waiting[0].id}:
        return _decided(next(iter(answers.values())), waiting[0].value)
    values = {one.id: one.value for one in waiting if one.id}
    if not set(answers) <= set(values):
        raise Refused("langgraph.answers_do_not_fit", ids=", ".join(sorted(values)))
    return {name: _decided(answer, values[name]) for name, answer in answers.items()}


def _decided(answer: Any, value: Any) -> Any:
    """Return an answer as the interrupt expects it: a review of tool calls needs a decision for each."""
    return answer_of(answer, value) if isinstance(answer, str) and _reviews(value) else answer


def _asked(one: Waiting, questions: Questions, refused: str) -> Any:
    prompt = prompt_of(one.value)
    text = questions.ask(
        "interrupt",
        f"{prompt}\n{refused}" if refused else prompt,
        node=one.node,
        interrupt=one.id,
        output=None if isinstance(one.value, str) else _json(one.value),
        choices=choices_of(one.value),
        schema=json.dumps(one.schema, ensure_ascii=False, default=plain) if one.schema else None,
    )
    return answer_of(text, one.value)


def prompt_of(value: Any) -> str:
    """Return the question: the text in the interrupt's value, or the whole value."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for name in PROMPTS:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
    return _json(value)


def choices_of(value: Any) -> list[str]:
    """Return the answers that the interrupt's value suggests; none if it suggests none."""
    if not isinstance(value, Mapping):
        return []
    if _reviews(value):
        allowed = [set(one.get("allowed_decisions") or []) for one in value["review_configs"]]
        return [one for one in ("approve", "reject") if all(one in each for each in allowed)]
    for name in CHOICES:
        found = value.get(name)
        if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
            return list(found)
    return []


def answer_of(text: str, value: Any) -> Any:
    """Return the value of an answer: decoded if the text is JSON, else the text."""
    if _reviews(value) and text in choices_of(value):
        # What the engine's own middleware expects of a person who reviews tool calls.
        return {"decisions": [{"type": text} for _ in value["action_requests"]]}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _reviews(value: Any) -> bool:
    """Return whether this is the engine's own request to review tool calls."""
    return isinstance(value, Mapping) and all(
        isinstance(value.get(name), list) for name in ("action_requests", "review_configs")
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=plain)
