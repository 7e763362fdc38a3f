"""The program of an engine's jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Runner:
    """The program that runs in the project's interpreter.

    ``prewarm_module`` is imported by a prewarmed process. ``environment`` holds variables that are set for
    both processes.
    """

    program: Path
    prewarm_module: str
    environment: Mapping[str, str] = field(default_factory=dict)
