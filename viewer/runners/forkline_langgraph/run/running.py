"""Runs a graph to its end, with a person's answers where it waits for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from forkline_langgraph.graphs import entry_points, event_loop
from forkline_langgraph.report.callbacks import Attempts
from forkline_langgraph.report.events import MODES, TaskReporter, shown
from forkline_langgraph.restore.source_store import SPECIAL
from forkline_langgraph.run import interrupts

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter


class Running:
    """One graph on one thread."""

    def __init__(
        self,
        graph: Any,
        config: dict[str, Any],
        reporter: Reporter,
        stream_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._reporter = reporter
        self._progress = TaskReporter(reporter)
        callbacks = [*config.get("callbacks", ()), Attempts(reporter, self._progress.units)]
        self.graph, self.config = graph, {**config, "callbacks": callbacks}
        self._stream_options = stream_options
        self.is_async = entry_points.is_async(graph)
        # What the config of the first step has besides: the checkpoint that it replays, if any.
        self._replayed: dict[str, str] = {}

    def state(self) -> Any:
        """Return the state of the thread's last checkpoint, as the graph reads it."""
        return self.graph.get_state(self.config)

    def waiting(self) -> list[interrupts.Waiting]:
        """Return the interrupts that wait for an answer at the thread's last checkpoint."""
        saved = self.graph.checkpointer.get_tuple(self.config)
        writes = (saved.pending_writes if saved else None) or ()
        finished = {str(task) for task, channel, _value in writes if channel not in SPECIAL}
        return interrupts.waiting_in(self.state(), finished)

    def update(self, values: Any, as_node: str | None, config: dict[str, Any] | None = None) -> None:
        """Write a checkpoint with changed values, as if ``as_node`` had returned them.

        ``config`` is that of a subgraph whose state changes; without it, the graph's own does.
        """
        at = config or self.config
        if self.is_async:
            event_loop.run(self.graph.aupdate_state(at, values, as_node=as_node))
        else:
            self.graph.update_state(at, values, as_node=as_node)

    def to_end(self, given: Any, *, asks_first: bool = True, replays: bool = False) -> str:
        """Run until nothing is left to do, or to a breakpoint. Return the result as text.

        ``given`` is the input, a ``Command`` with answers, or None to continue. ``asks_first`` is false if an
        edit has made the stored questions outdated. ``replays`` begins at the last checkpoint as a replay, so
        that subgraphs load what they remembered before it.
        """
        if replays:
            last = self.state().config["configurable"]["checkpoint_id"]
            self._replayed = {"checkpoint_id": last, "checkpoint_ns": ""}
        if given is None and asks_first and (waiting := self.waiting()):
            # Ask first: running the waiting nodes up to their questions would repeat what they do before.
            given = self._answered(waiting)
        while True:
            refused: Exception | None = None
            try:
                self._stream(given)
            except Exception as error:
                if not interrupts.is_refused_answer(error):
                    raise
                # Nothing is stored of an answer that its node refuses, so its question can be asked again.
                refused = error
            state = self.state()
            waiting = self.waiting()
            if refused and not waiting:
                raise refused
            if not waiting:
                break
            given = self._answered(waiting, str(refused or ""))
        if state.next:
            self._reporter.write("breakpoint", nodes=units_of(state.next))
        return result_of(state.values)

    def report_steps(self, nodes: Sequence[str]) -> None:
        """Report which nodes run next."""
        steps = [
            {"unit": unit, "position": position, "title": unit, "action": "runs"}
            for position, unit in enumerate(units_of(nodes), 1)
        ]
        self._reporter.write("steps", steps=steps)

    def _answered(self, waiting: list[interrupts.Waiting], refused: str = "") -> Command[Any]:
        return Command(resume=interrupts.ask(waiting, self._reporter.questions, refused))

    def _stream(self, given: Any) -> None:
        options = {"stream_mode": MODES, "subgraphs": True, **self._stream_options}
        replayed, self._replayed = self._replayed if given is None else {}, {}
        config = {**self.config, "configurable": {**self.config["configurable"], **replayed}}
        if self.is_async:
            event_loop.run(self._consume(given, config, options))
            return
        for part in self.graph.stream(given, config, **options):
            self._progress.report(*part)

    async def _consume(self, given: Any, config: dict[str, Any], options: dict[str, Any]) -> None:
        async for part in self.graph.astream(given, config, **options):
            self._progress.report(*part)


def units_of(nodes: Sequence[str]) -> list[str]:
    """Return the units of nodes that run together: repeated nodes are numbered from the second on."""
    counts: dict[str, int] = {}
    units = []
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
        units.append(node if counts[node] == 1 else f"{node} {counts[node]}")
    return units


def result_of(values: Any) -> str:
    """Return the result of a run: the last message of a conversation, else the values as JSON."""
    messages = values.get("messages") if isinstance(values, dict) else None
    text = getattr(messages[-1], "content", None) if isinstance(messages, list) and messages else None
    return text if isinstance(text, str) and text else shown(values)
