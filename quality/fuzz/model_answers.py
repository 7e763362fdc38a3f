"""Answers the model calls of random runs from hostile records, from several threads.

Passes if each recorded answer answers once at most; if others than the same messages are only answered in
order, by what followed the checkpoint; and if a call without a usable answer stops the run.
"""

import json
import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from quality.fuzz.attempts import print_attempts

# The packages of the runners, as a runner imports them.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer/runners"))

from forkline_runner.calls import ModelAnswers
from viewer.engines.recorded_calls import CallMessage, RecordedCall, RequestedTool, recorded_answer

if TYPE_CHECKING:
    from forkline_runner.recorded import Message
    from forkline_runner.reporting import Reporter

RUNS, CALLS, THREADS = 8_000, 30, 4
TEXTS = ("", "x", " x ", "y", "\ud800", "\0", "\u202e\u2028", "é" * 5_000, "[redacted]", '{"a": 1}')
ROLES, MODELS = ("system", "user", "assistant", "tool", ""), ("", "a", "b")
ARGUMENTS: tuple[Any, ...] = ({}, {"a": 1}, {"a": [None, {"b": 1.5}]}, {"a": "1"}, "not JSON {")


@dataclass
class Spool:
    """Replaces the runner's reporter. Keeps what it would write."""

    written: list[dict[str, Any]] = field(default_factory=list)

    def write(self, _kind: str, **values: Any) -> None:
        self.written.append(values)


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    kinds = ("same messages", "in order", "stopped")
    return print_attempts(try_run, "recorded answers", "of a model, on four threads", "runs", RUNS, kinds)


def conversation(chance: random.Random) -> tuple[CallMessage, ...]:
    """Return messages, of which many are equal in several runs."""
    return tuple(
        CallMessage(
            chance.choice(ROLES),
            chance.choice(TEXTS),
            tools=tuple(
                RequestedTool("t", chance.choice(ARGUMENTS), str(chance.random()))
                for _ in range(chance.randrange(2))
            ),
        )
        for _ in range(chance.randrange(3))
    )


def sent(messages: tuple[CallMessage, ...]) -> "list[Message]":
    """Return the messages as a runner reads them, with the arguments as a provider writes them."""
    return [
        (one.role, one.text, [(tool.name, written(tool.arguments)) for tool in one.tools]) for one in messages
    ]


def written(arguments: Any) -> Any:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def try_run(chance: random.Random, counts: Counter[str]) -> list[str]:
    """Answer the calls of one run. Return what was wrong."""
    in_order, recorded, by_id = chance.random() < 0.5, [], {}
    for number in range(chance.randrange(20)):
        messages = conversation(chance)
        call = RecordedCall(
            str(number), chance.choice(MODELS), messages, answer=CallMessage("assistant", "yes")
        )
        answer = recorded_answer(call)
        assert answer is not None
        answer["is_in_order"] = chance.random() < 0.7
        if chance.random() < 0.1:
            answer["text"] = None
        recorded.append(answer)
        by_id[answer["id"]] = plain(messages), call.model, answer
    answers = ModelAnswers({"recorded": recorded, "in_order": in_order}, cast("Reporter", Spool()))
    made = [(conversation(chance), chance.choice(MODELS)) for _ in range(CALLS)]

    def answered(call: tuple[tuple[CallMessage, ...], str]) -> str | None:
        try:
            return str(answers.answer(sent(call[0]), call[1])["id"])
        except LookupError:
            return None

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(answered, made))
    wrong = [
        f"answer {one} was used {count} times"
        for one, count in Counter(filter(None, found)).items()
        if count > 1
    ]
    for (messages, _model), one in zip(made, found, strict=True):
        if one is None:
            counts["stopped"] += 1
            continue
        asked, _named, answer = by_id[one]
        is_same = asked == plain(messages)
        counts["same messages" if is_same else "in order"] += 1
        if answer["text"] is None:
            wrong.append(f"answer {one} cannot be used")
        if not is_same and not (in_order and answer["is_in_order"]):
            wrong.append(f"answer {one} answered other messages")
    if None in found and answers.refused is None:
        wrong.append("a call without an answer did not stop the run")
    return wrong


def plain(messages: tuple[CallMessage, ...]) -> list[Any]:
    return [
        (one.role, one.text.strip(), [(tool.name, tool.arguments) for tool in one.tools]) for one in messages
    ]


if __name__ == "__main__":
    sys.exit(main())
