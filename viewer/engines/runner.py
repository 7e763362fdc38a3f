"""The program of an engine's jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Runner:
    """The program that runs in the project's interpreter.

    ``prewarm_module`` is imported by the process that waits for a job; ``environment`` is set for both.
    """

    program: Path
    prewarm_module: str
    environment: Mapping[str, str] = field(default_factory=dict)
