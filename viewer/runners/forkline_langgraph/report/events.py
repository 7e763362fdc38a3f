"""Writes what a graph streams to the spool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

# Every version has "debug", which reports tasks, their results and checkpoints. "messages" makes models
# stream their answers even where a node waits for the whole answer; the callbacks report the text.
MODES = ["debug", "custom", "messages"]
MAX_OUTPUT = 2000


class TaskReporter:
    """Reports the tasks of a graph and of the graphs inside it.

    A unit is a node. Its name follows the names of the nodes whose subgraphs it is in. If a node runs several
    times in one step, as with ``Send``, its units are numbered from the second on.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        # Tasks that finished earlier. The engine streams them as well, but uses their stored writes.
        self._finished: set[str] = set()
        # The units by the ids of their tasks.
        self.units: dict[str, str] = {}
        self._in_step: dict[tuple[str, int], int] = {}

    def report(self, namespace: Sequence[str], mode: str, part: Any) -> None:
        """Report one streamed part."""
        if mode == "custom":
            self._reporter.write("custom", value=shown(part))
        if mode != "debug":
            return
        payload, kind = part.get("payload") or {}, part.get("type")
        if kind == "checkpoint":
            self._finished |= {str(task["id"]) for task in payload.get("tasks") or [] if "result" in task}
        elif kind == "task" and payload["id"] not in self._finished:
            unit = self._unit_of(namespace, payload, int(part.get("step") or 0))
            self._reporter.write(
                "node_started", node=unit, id=payload["id"], step=part.get("step"), description=unit
            )
        elif kind == "task_result":
            self._report_result(payload)

    def _report_result(self, payload: Mapping[str, Any]) -> None:
        unit, task = self.units.get(payload["id"], str(payload["name"])), payload["id"]
        if payload.get("error"):
            self._reporter.write("node_failed", node=unit, id=task, error=shown(payload["error"]))
        elif payload.get("interrupts"):
            self._reporter.write("node_interrupted", node=unit, id=task)
        else:
            result = payload.get("result")
            # After an interrupt in the same step, the task is streamed again without running again.
            self._finished.add(str(task))
            self._reporter.write("node_completed", node=unit, id=task, output=shown(result))

    def _unit_of(self, namespace: Sequence[str], payload: Mapping[str, Any], step: int) -> str:
        name = "/".join([*(part.partition(":")[0] for part in namespace), str(payload["name"])])
        task = str(payload["id"])
        if task not in self.units:
            number = self._in_step[name, step] = self._in_step.get((name, step), 0) + 1
            self.units[task] = name if number == 1 else f"{name} {number}"
        return self.units[task]


def shown(value: Any) -> str:
    """Return a value as text for an event, shortened."""
    if isinstance(value, BaseException):
        return shortened(f"{type(value).__name__}: {value}", MAX_OUTPUT)
    if isinstance(value, str):
        return shortened(value, MAX_OUTPUT)
    return shortened(json.dumps(value, default=plain, ensure_ascii=False), MAX_OUTPUT)


def plain(value: Any) -> Any:
    """Return a JSON value in place of a value that JSON cannot represent."""
    for name in ("model_dump", "_asdict"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
