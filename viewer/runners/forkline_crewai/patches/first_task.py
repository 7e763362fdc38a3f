"""Call back once a crew is ready to start its first task.

Patches: crewai.crew.prepare_task_execution
Versions: 1.14.2 and newer
Why: The prompt cache is warmed with the prompts that the engine builds, and only then are they complete.
Test: tests/runners/runs/test_models_and_cache_warmup.py::test_another_model_for_a_role_and_a_cache_warmup
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import crewai.crew


def apply(crew: Any, callback: Callable[[], None]) -> None:
    """Call ``callback`` once, before the first task of ``crew``."""
    prepare_task = crewai.crew.prepare_task_execution
    callbacks = [callback]

    def prepare(prepared: Any, *rest: Any, **named: Any) -> Any:
        if prepared is crew and callbacks:
            callbacks.pop()()
        return prepare_task(prepared, *rest, **named)

    crewai.crew.prepare_task_execution = prepare
