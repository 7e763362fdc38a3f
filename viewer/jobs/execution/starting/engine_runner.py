"""The runner of an engine: its program, and the module that a prewarmed process imports.

The settings JOB_RUNNERS and PREWARM_MODULES name others, by engine.
"""

from pathlib import Path

from django.conf import settings

from viewer.engines import DEFAULT, engine_name, engine_named
from viewer.models import Project


def runner_program(engine: str) -> Path:
    """The program that runs the jobs of this engine."""
    return Path(settings.JOB_RUNNERS.get(engine) or engine_named(engine).runner.program)


def prewarm_module(engine: str) -> str:
    """The module that a prewarmed process of this engine imports."""
    return str(settings.PREWARM_MODULES.get(engine) or engine_named(engine).runner.prewarm_module)


def engine_of_project(project: Project | None) -> str:
    """The name of the engine of the project's locations, or of the default engine if it has no location."""
    location = project.locations.first() if project is not None and project.pk else None
    return engine_name(location) if location else DEFAULT
