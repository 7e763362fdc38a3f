"""Replays hostile recorded calls with models that answer anything, and stores what the runner reports.

Passes if each model is called as often as confirmed and no tool is, if every event fits into the spool, a cut
answer says so, and no row or request for the next replay has a secret: of the project, or of a known form.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from quality.fuzz.attempts import print_attempts

# The packages of the runners, as a runner imports them.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer/runners"))

from forkline_runner.calls import Answer, messages_of, parameters_of, replay, tools_of
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.values import redact

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request

CALLS, MAX_EVENT_BYTES = 4_000, 256 * 1024
# No rule recognises the first one as a secret.
OF_PROJECT, KEY = "blue whale (north)", "sk-canary0123456789abcdefghij"
TEXTS = (
    *("", "x", "<script>alert(1)</script>", "\ud800", "\0", "\u202e\u2028", "{{ 7*7 }}", "{% load x %}"),
    *(KEY, f"My key is {KEY}.", OF_PROJECT, json.dumps({"token": KEY}), "x" * 400_000, "\x01" * 80_000),
    *(
        "é" * 200_000,
        f"{'y ' * 79_990}{KEY}",
        f"{'y ' * 79_990}{OF_PROJECT}",
        "../../etc/passwd",
        "__class__",
    ),
)
NAMES = ("send_mail", "__init__", "<img src=x onerror=alert(1)>", "os.system", "a" * 30_000, KEY, "\ud800")


class Unwritable:
    """A value that JSON cannot hold. Its text is a secret."""

    def __repr__(self) -> str:
        return f"<{KEY}>"


@dataclass
class Spool:
    """Replaces the runner's reporter. Keeps what it would write."""

    limits: None = None
    written: list[dict[str, Any]] = field(default_factory=list)

    def write(self, kind: str, **values: Any) -> None:
        self.written.append({"kind": kind, **values})


@dataclass
class Model:
    """Answers, or fails, at random."""

    chance: random.Random
    sent: list[Any] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)

    def client(self, request: "Request", name: str) -> Callable[[], Answer]:
        def send() -> Answer:
            self.sent.append((name, messages_of(request), tools_of(request), parameters_of(request)))
            if self.chance.random() < 0.2:
                raise ValueError(self.chance.choice(TEXTS))
            self.answers.append(Answer(self.chance.choice(TEXTS), [self.tool() for _ in range(self.few())]))
            return self.answers[-1]

        return send

    def few(self) -> int:
        return self.chance.choice((0, 0, 1, 3, 200))

    def tool(self) -> Mapping[str, Any]:
        arguments: tuple[Any, ...] = (
            None,
            {},
            {"x": self.chance.choice(TEXTS)},
            {"run": self.executed.append},
            Unwritable(),
        )
        return {"name": self.chance.choice(NAMES), "arguments": self.chance.choice(arguments), "id": "c"}


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    kinds = ("answered", "failed", "cut", "with tools")
    return print_attempts(try_call, "replays", "of hostile recorded calls", "calls", CALLS, kinds)


def try_call(chance: random.Random, counts: Counter[str]) -> list[str]:
    """Replay one call. Return what was wrong."""
    names, times = chance.sample(["a", "b", KEY, OF_PROJECT, "openai:<x>"], 2), chance.randint(1, 3)
    request = cast("Request", request_of(chance, names, times))
    model, spool = Model(chance), Spool()
    try:
        replay(request, cast("Reporter", spool), lambda name: model.client(request, name))
    except ValueError:
        if model.answers:
            return ["an answer was followed by an error"]
    wrong = [] if len(model.sent) == len(names) * times == len(spool.written) else ["calls"]
    wrong += ["a tool was executed"] if model.executed else []
    answers = iter(model.answers)
    for line in spool.written:
        text = json.dumps(line)
        if len(text) > MAX_EVENT_BYTES:
            wrong.append(f"an event has {len(text)} bytes")
        if not line["error"]:
            whole = next(answers)
            if line["is_cut"] != (line["text"] != whole.text):
                wrong.append("a cut answer does not say so")
            counts["cut"] += line["is_cut"]
            counts["with tools"] += bool(line["tools"])
        counts["failed" if line["error"] else "answered"] += 1
    stored = json.dumps(redact(spool.written, known_secrets((OF_PROJECT,))), ensure_ascii=False)
    wrong += [f"{secret[:9]} is stored" for secret in (KEY[:20], OF_PROJECT) if secret in stored]
    return wrong


def request_of(chance: random.Random, models: Sequence[str], times: int) -> dict[str, Any]:
    """Return a request whose recorded call is made of hostile texts."""
    messages = [
        {
            "role": chance.choice(("system", "user", "assistant", "tool", "<b>")),
            "text": chance.choice(TEXTS),
            "name": chance.choice(("", *NAMES)),
            "tools": [{"name": chance.choice(NAMES), "args": chance.choice((None, {}, "{", {"x": 1}))}],
            "answers": chance.choice(("", "c")),
        }
        for _ in range(chance.randrange(6))
    ]
    tools = [{"name": name, "description": None, "schema": None} for name in chance.sample(NAMES, 2)]
    call = {"messages": messages, "tools": tools, "parameters": {"stop_sequences": [KEY]}, "models": models}
    return {"call": call, "replay": {"times": times, "models": [], "recorded": "", "model": "", "agent": ""}}


if __name__ == "__main__":
    sys.exit(main())
