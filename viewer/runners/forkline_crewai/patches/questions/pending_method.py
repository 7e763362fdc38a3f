"""Reuse the output of a flow's method that paused for feedback, instead of running the method again.

Patches: crewai.flow.flow.Flow._execute_method, crewai.flow.flow.Flow._resolve_feedback_provider
Versions: 1.14.2 and newer; only 1.15 and newer have _resolve_feedback_provider
Why: The engine would run the method again, and pay for it again, before it requests feedback.
Test: quality/compatibility/rows/questions.py::pending
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crewai.flow.flow import Flow


def apply(flow: Any, method: str, resume: Callable[[], Callable[..., Any]], done: Callable[[], None]) -> None:
    """Run what ``resume`` returns in place of ``method``, then call ``done``.

    Has no effect once another method of ``flow`` has finished.
    """
    engine: Any = Flow
    execute = engine._execute_method
    finished = {"any": False}

    async def executing(self: Any, name: Any, original: Any, *rest: Any, **named: Any) -> Any:
        if self is not flow or str(name) != method or finished["any"]:
            outcome = await execute(self, name, original, *rest, **named)
            finished["any"] = finished["any"] or self is flow
            return outcome
        finished["any"] = True
        outcome = await execute(self, name, resume(), *rest, **named)
        done()
        return outcome

    engine._execute_method = executing


def apply_provider(flow: Any, config: Any, provider: Any) -> None:
    """Resolve the feedback provider of ``config`` to ``provider``, once and for this flow."""
    engine: Any = Flow
    resolve, waiting = engine._resolve_feedback_provider, [config]

    def resolved(self: Any, definition: Any) -> Any:
        if self is flow and any(definition is one for one in waiting):
            waiting.clear()
            return provider
        return resolve(self, definition)

    engine._resolve_feedback_provider = resolved
