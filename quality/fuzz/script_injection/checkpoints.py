"""Creates stores in which every text is a payload, so that every text on a page is one.

Each payload is followed by its field and number, as in ``«crew name 12»``, which identifies it on a page.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

TABLE = (
    "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, parent_id TEXT, branch TEXT, data TEXT)"
)
# The number of payloads in a field that a checkpoint or job has only once.
TOGETHER = 9
AT = "2026-11-20T23:28:{:02}Z"


class Texts:
    """The payloads with certain numbers, as texts of any field."""

    def __init__(self, payloads: Mapping[int, str]) -> None:
        self._payloads = payloads
        self.numbers = tuple(payloads)

    def text(self, field: str, *numbers: int) -> str:
        """Return the payloads with these numbers, concatenated."""
        return "\n".join(f"{self._payloads[number]} «{field} {number}»" for number in numbers)

    def together(self, number: int) -> tuple[int, ...]:
        """Return the numbers that share the pages of this number. Most have their own pages."""
        index = self.numbers.index(number)
        return (number,) if index % TOGETHER else self.numbers[index : index + TOGETHER]

    @property
    def visited(self) -> tuple[int, ...]:
        """Return the numbers that have their own pages."""
        return self.numbers[::TOGETHER]

    def printable(self, field: str, number: int) -> str:
        """Return the text without characters that are not allowed in the id of a row."""
        return "".join(sign for sign in self.text(field, number) if sign.isprintable())

    def file_name(self, field: str, number: int) -> str:
        """Return the text as a path. Slashes separate folders."""
        return "/".join(part for part in self.text(field, number).split("/") if part.strip(". "))


def write_crew(path: Path, texts: Texts) -> None:
    """Write a SQLite store of one run. Each checkpoint has a payload as its id, branch and so on."""
    parent: str | None = None
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(TABLE)
        for number in texts.numbers:
            checkpoint_id, branch = texts.printable("id", number), texts.text("branch", number)
            everyone = texts.numbers if number == texts.numbers[-1] else texts.together(number)
            body = json.dumps(crew_body(texts, number, everyone))
            row = (checkpoint_id, "", parent or texts.text("parent", number), branch, body)
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", row)
            parent = checkpoint_id


def write_flow(folder: Path, texts: Texts) -> None:
    """Write a folder with a checkpoint of a flow, one of an agent, and invalid files named by payloads."""
    (folder / "main").mkdir(parents=True)
    for name, body in (("aaaaaaaa", flow_body(texts)), ("bbbbbbbb", agent_body(texts))):
        (folder / "main" / f"20261120T232826_{name}.json").write_text(json.dumps(body))
    for number in texts.numbers:
        path = folder / f"{texts.file_name('file name', number)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[]")


def crew_body(texts: Texts, number: int, everyone: Sequence[int]) -> dict[str, Any]:
    """Return the checkpoint of a crew, with one payload in each repeated element."""

    def text(field: str) -> str:
        return texts.text(field, *texts.together(number))

    crew: dict[str, Any] = {
        "entity_type": "crew",
        "id": text("crew id"),
        "name": text("crew name"),
        "checkpoint_kickoff_event_id": f"kickoff of {texts.numbers[0]}",
        "checkpoint_inputs": {texts.text("input name", one): texts.text("input", one) for one in everyone},
        "tasks": [made(texts, one) for made in (text_task, json_task) for one in everyone],
        "agents": [agent(texts, one) for one in everyone],
    }
    inner = {"entity_type": text("entity kind"), "name": text("entity name"), "id": text("entity id")}
    trigger = texts.text("trigger", number)
    written = {"type": trigger, "task_name": texts.text("subject", number)}
    return {
        "crewai_version": "1.15.30",
        "branch": texts.text("branch", number),
        "trigger": trigger,
        "entities": [crew, inner],
        "event_record": record([written, *events(texts, everyone)]),
    }


def text_task(texts: Texts, number: int) -> dict[str, Any]:
    fields = ("name", "description", "expected_output", "checkpoint_original_description", "id")
    output = {"raw": texts.text("output", number), "description": texts.text("former description", number)}
    task = {name: texts.text(f"task {name.replace('_', ' ')}", number) for name in fields}
    tools = [{"name": texts.text("task tool", number)}]
    return {**task, "agent": {"role": texts.text("task agent", number)}, "tools": tools, "output": output}


def json_task(texts: Texts, number: int) -> dict[str, Any]:
    value = {texts.text("output field", number): [texts.text("output value", number)]}
    return {"id": f"task {number}", "name": "json", "output": {"raw": "{}", "json_dict": value}}


def agent(texts: Texts, number: int) -> dict[str, Any]:
    fields = {name: texts.text(name, number) for name in ("role", "goal", "backstory")}
    model = {"model": texts.text("model", number)}
    return {"id": f"agent {number}", **fields, "llm": model, "tools": [{"name": texts.text("tool", number)}]}


def events(texts: Texts, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the events of each number: those of a model call, and a failure of an unknown kind."""
    made: list[dict[str, Any]] = []
    for number in numbers:
        message = {"role": texts.text("message role", number), "content": texts.text("message", number)}
        offered = {name: texts.text(f"offered {name}", number) for name in ("name", "description")}
        started = {
            "type": "llm_call_started",
            "event_id": f"call {number}",
            "emission_sequence": 2 * number,
            "messages": [message],
            "model": texts.text("called model", number),
            "tools": [{"type": "function", "function": offered}],
            "stop_sequences": [texts.text("parameter", number)],
        }
        called: dict[str, Any] = {"type": "llm_call_completed", "messages": [message]}
        called |= {"model": texts.text("event model", number), "response": texts.text("response", number)}
        called |= {"started_event_id": f"call {number}", "emission_sequence": 2 * number + 1}
        failed = {
            "type": texts.text("event kind", number) + "_failed",
            "tool_name": texts.text("event tool", number),
            "error": texts.text("event error", number),
            "agent_role": texts.text("event agent", number),
        }
        made += [started, called, failed]
    return made


def record(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    nodes = {
        f"event {index}": {"event": {"timestamp": AT.format(index % 60), **event}}
        for index, event in enumerate(events)
    }
    return {"nodes": nodes}


def flow_body(texts: Texts) -> dict[str, Any]:
    """Return the checkpoint of a flow, with a method and some state values for each number."""
    methods = {texts.text("method", number): 2 for number in texts.numbers}
    state: dict[str, Any] = {"id": f"flow of {texts.numbers[0]}"}
    for number in texts.numbers:
        value: Any = texts.text("state", number)
        state[texts.text("state name", number)] = value
        state[f"nested {number}"] = {texts.text("state key", number): [texts.text("state item", number)]}
    flow = {
        "entity_type": "flow",
        "name": texts.text("flow name", texts.numbers[0]),
        "checkpoint_state": state,
        "checkpoint_completed_methods": list(methods)[::2],
        "checkpoint_method_counts": methods,
        "checkpoint_method_outputs": [texts.text("method output", number) for number in texts.numbers],
    }
    return {
        "crewai_version": "1.15.30",
        "entities": [flow],
        "event_record": record(events(texts, texts.numbers[:1])),
    }


def agent_body(texts: Texts) -> dict[str, Any]:
    first = texts.numbers[0]
    asked = {"type": "lite_agent_execution_started", "messages": texts.text("question of an agent", first)}
    lone = {"entity_type": "agent", **agent(texts, first), "id": texts.text("agent id", first)}
    return {"crewai_version": "1.15.30", "entities": [lone], "event_record": record([asked])}
