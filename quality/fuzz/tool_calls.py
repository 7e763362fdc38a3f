"""Decides about the tool calls of random runs, from several threads, next to a person who answers at random.

Passes if no tool is called that is refused, in a dry run, or that needs a question which nobody answered with
a call; if each recorded result answers once at most; and if a tool is called with what the model or the
person wrote. Models write the names and arguments of one tool in many ways.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from quality.fuzz.attempts import print_attempts

# The packages of the runners, as a runner imports them.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer/runners"))

from forkline_runner.calls import ToolCalls
from forkline_runner.recorded import canonical

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Tools

RUNS, CALLS, THREADS = 20_000, 40, 4
# Each line is one tool.
NAMES = (
    ("send_mail", "sendMail", "Send mail", "SEND-MAIL", " send_mail ", "Sénd mail"),
    ("search", "Search", "SEARCH", "«search»"),
    ("天気", " 天気 "),
    ("delete_everything", "deleteEverything", "Delete everything!"),
)
ADA = {"to": "ada", "n": 1}
ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (ADA, {"n": 1.0, "to": "ada"}, json.dumps(ADA), ADA | {"cc": None}),
    ({"by": {"n": [2, None]}}, '{"by": {"n": [2.0, null]}}'),
    ({"by": {"n": [2]}},),
    ({}, "{}", {"cc": None}),
    ({"to": "bob\n\u2028\0"}, '{"to": "bob\\n\\u2028\\u0000"}'),
    ("not JSON {", " not JSON { "),
    ({"deep": [[[{"a": float("1e300")}]]]},),
)
TYPED = ("call", "recorded", "refuse", '{"to": "typed"}', "{", "[]", "", "null", "CALL")
CHOICES = ("call", "ask", "recorded", "refuse")


@dataclass
class Person:
    """Replaces the runner's reporter. Records the decisions, and answers questions at random."""

    chance: random.Random
    asked: list[str] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def questions(self) -> "Person":
        return self

    def ask(self, _kind: str, _text: str, **_shown: Any) -> str:
        self.asked.append(self.chance.choice(TYPED))
        return self.asked[-1]

    def write(self, _kind: str, **values: Any) -> None:
        self.lines.append(values)


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    kinds = ("called", "from the record", "refused", "asked")
    return print_attempts(try_run, "tool calls", "of four tools, on four threads", "runs", RUNS, kinds)


def try_run(chance: random.Random, counts: Counter[str]) -> list[str]:
    """Decide about the calls of one run. Return what was wrong."""
    # Tools and arguments are known by their positions, so that nothing here compares how they are written.
    recorded = [(pick(chance, NAMES), pick(chance, ARGUMENTS), chance.random() < 0.8) for _ in range(10)]
    recorded = recorded[: chance.randrange(11)]
    choices = {tool: chance.choice(CHOICES) for tool in range(len(NAMES)) if chance.random() < 0.5}
    tools = {
        "choices": {written(chance, NAMES[tool]): choice for tool, choice in choices.items()},
        "recorded": [
            {
                "tool": written(chance, NAMES[tool]),
                "arguments": written(chance, ARGUMENTS[given]),
                "result": f"result {number}" if has_result else None,
            }
            for number, (tool, given, has_result) in enumerate(recorded)
        ],
        "is_known": chance.random() < 0.8,
        "dry_run": chance.random() < 0.2,
    }
    person = Person(chance)
    calls = ToolCalls(cast("Tools", tools), cast("Reporter", person))
    made = [(pick(chance, NAMES), pick(chance, ARGUMENTS)) for _ in range(CALLS)]
    texts = [(written(chance, NAMES[tool]), written(chance, ARGUMENTS[given])) for tool, given in made]
    with ThreadPoolExecutor(THREADS) as threads:
        decisions = list(threads.map(lambda text: calls.decide(*text), texts))
    results = Counter((tool, given) for tool, given, has_result in recorded if has_result)
    repeated = {tool for tool, _given, _has_result in recorded}
    wrong = []
    answered, called = Counter[tuple[int, int]](), Counter[int]()
    for (tool, given), (_name, arguments), decision in zip(made, texts, decisions, strict=True):
        choice = choices.get(tool, "ask" if tool in repeated or not tools["is_known"] else "call")
        if decision.answer is None:
            called[tool] += 1
            if choice == "refuse" or tools["dry_run"]:
                wrong.append(f"{NAMES[tool][0]} was called: {choice}, dry run {tools['dry_run']}")
            is_typed = decision.arguments == {"to": "typed"}
            if not is_typed and canonical(decision.arguments) != canonical(arguments):
                wrong.append(f"{NAMES[tool][0]} was called with {decision.arguments}")
            if is_typed and choice == "call":
                wrong.append(f"{NAMES[tool][0]} was asked about")
        elif not decision.is_refused:
            answered[tool, given] += 1
            if choice == "refuse":
                wrong.append(f"{NAMES[tool][0]} was answered, and refused by choice")
        counts["called"] += decision.answer is None
        counts["refused"] += decision.is_refused
        counts["from the record"] += decision.answer is not None and not decision.is_refused
    counts["asked"] += len(person.asked)
    wrong += [f"{key} was answered too often" for key in answered if answered[key] > results[key]]
    default = {tool: "ask" if tool in repeated or not tools["is_known"] else "call" for tool in called}
    needed = sum(called[tool] for tool in called if choices.get(tool, default[tool]) != "call")
    agreed = sum(text == "call" or is_object(text) for text in person.asked)
    if needed > agreed:
        wrong.append(f"{needed} calls needed a question, {agreed} were agreed to")
    return [*wrong, *([f"{len(person.lines)} decisions were reported"] if len(person.lines) != CALLS else [])]


def pick(chance: random.Random, values: Sequence[Any]) -> int:
    return chance.randrange(len(values))


def written(chance: random.Random, ways: Sequence[Any]) -> Any:
    return chance.choice(ways)


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


if __name__ == "__main__":
    sys.exit(main())
