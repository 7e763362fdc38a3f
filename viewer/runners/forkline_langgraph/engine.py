"""The installed engine: which version it is, how it loads values, and its import before a job needs it.

prewarm_runner.py calls ``load`` and ``begin``.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from contextlib import suppress
from typing import TYPE_CHECKING

import forkline_langgraph
from forkline_runner import findings, project

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

ENGINE = "langgraph"
# The package of the saver that the scratch store is written with.
SAVER = "langgraph-checkpoint-sqlite"
# The first version whose checkpoints are known.
MIN_ENGINE = "0.2.76"
# Imported only by a first run. Only projects with a database have its driver and saver.
LATE = (
    *(f"{ENGINE}.{name}" for name in ("graph", "func", "prebuilt", "pregel.debug", "checkpoint.postgres")),
    *("langchain_core.messages", "langchain_core.tracers.log_stream"),
    *("asyncio", "sqlite3", "encodings.idna", "concurrent.futures.thread", "importlib.metadata"),
)


def report_start(reporter: Reporter) -> str:
    """Report the installed versions. Return the engine's.

    Raises Refused if it, or its SQLite saver, is missing, or if it is too old.
    """
    return project.report_start(
        reporter,
        [ENGINE, SAVER],
        MIN_ENGINE,
        label="LangGraph",
        missing="langgraph.not_installed",
        too_old="langgraph.version_too_old",
    )


def load_strictly() -> None:
    """Make the engine's serializer load only allowed classes."""
    # Read once, when the engine is imported.
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"


def load() -> None:
    """Import the engine. Raises ImportError if it, or its SQLite saver, is not installed."""
    load_strictly()
    importlib.import_module(f"{ENGINE}.checkpoint.sqlite")
    for part in pkgutil.iter_modules(forkline_langgraph.__path__, "forkline_langgraph."):
        importlib.import_module(part.name)
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)


def begin() -> None:
    """Keep keys out of a preflight check. Call it in a job's process."""
    findings.forbid_keys_and_hosts()
