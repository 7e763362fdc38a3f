"""Imports in advance all modules of the engine that a job's process needs. Used by prewarm_runner.py."""

from __future__ import annotations

import importlib
import os
import pkgutil
from contextlib import nullcontext, suppress

import forkline_langgraph
from forkline_runner import findings

PACKAGE = "langgraph"
# Imported only by a first run.
LATE = (
    *(f"{PACKAGE}.{name}" for name in ("graph", "func", "prebuilt", "pregel.debug")),
    *("langchain_core.messages", "langchain_core.tracers.log_stream"),
    *("asyncio", "sqlite3", "encodings.idna", "concurrent.futures.thread", "importlib.metadata"),
)


def load() -> None:
    """Import the engine. Raises ImportError if it, or its SQLite saver, is not installed."""
    # Read once, when the engine is imported.
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
    importlib.import_module(f"{PACKAGE}.checkpoint.sqlite")
    for part in pkgutil.walk_packages(forkline_langgraph.__path__, "forkline_langgraph."):
        # Only projects with a database have its driver.
        with suppress(ImportError) if ".postgresql." in part.name else nullcontext():
            importlib.import_module(part.name)
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)


def begin() -> None:
    """Keep keys out of a preflight check. Call it in a job's process."""
    findings.forbid_keys_and_hosts()
