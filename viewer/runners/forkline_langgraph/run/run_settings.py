"""How a graph runs apart from its state: breakpoints, configurable values and context."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.host.jobs.request import Request

# A person's configuration must not choose the thread or checkpoint that a run continues.
RESERVED = {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}
EVERY = "*"


@dataclass(frozen=True)
class RunSettings:
    """``before`` and ``after`` name the nodes at which a run stops; ``*`` is every node."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    configurable: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)

    def config(self, thread: str) -> dict[str, Any]:
        """Return the config of a run on this thread."""
        return {"configurable": {**self.configurable, "thread_id": thread}}

    def stream_options(self, graph: Any) -> dict[str, Any]:
        """Return the options for the graph's ``stream``. Raises Refused for options that it lacks."""
        unknown = sorted({*self.before, *self.after} - {EVERY} - set(graph.nodes))
        if unknown:
            raise Refused("langgraph.no_such_node", node=", ".join(unknown))
        options: dict[str, Any] = {}
        for name, nodes in (("interrupt_before", self.before), ("interrupt_after", self.after)):
            if nodes:
                options[name] = EVERY if EVERY in nodes else list(nodes)
        if self.context:
            if "context" not in inspect.signature(graph.stream).parameters:
                raise Refused("langgraph.no_context")
            options["context"] = dict(self.context)
        return options


def settings_of(request: Request) -> RunSettings:
    """Return the settings of a request. Raises Refused if its configurable values have reserved names."""
    options, configurable = request.get("options") or {}, request.get("configurable") or {}
    taken = sorted(name for name in configurable if name in RESERVED or name.startswith("__"))
    if taken:
        raise Refused("langgraph.reserved_configurable", names=", ".join(taken))
    return RunSettings(
        tuple(options.get("stop_before") or ()),
        tuple(options.get("stop_after") or ()),
        configurable,
        request.get("context") or {},
    )
