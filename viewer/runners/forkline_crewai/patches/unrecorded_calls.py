"""Drop the events of the calls that warm the prompt cache.

Patches: crewai.events.event_bus.crewai_event_bus.emit
Versions: 1.14.2 and newer
Why: Their events would be recorded in the checkpoints as work of the run's agents.
Test: tests/runners/runs/test_models_and_cache_warmup.py::test_another_model_for_a_role_and_a_cache_warmup
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from crewai.events.event_bus import crewai_event_bus


def apply(tokens: ContextVar[list[int] | None]) -> None:
    """Drop events while ``tokens`` has a list in the context, and append the calls' tokens to that list."""
    emit: Callable[..., Any] = crewai_event_bus.emit

    def emit_unless_warming(source: Any, event: Any) -> Any:
        used = tokens.get()
        if used is None:
            return emit(source, event)
        if event.type == "llm_call_completed":
            usage: Mapping[str, Any] = getattr(event, "usage", None) or {}
            used.append(int(usage.get("total_tokens") or 0))
        return None

    crewai_event_bus.emit = emit_unless_warming
