"""Imports in advance all modules of the engine that a job's process needs. Used by prewarm_runner.py.

The engine reads environment files and a person's sign-in when it is imported. A process that waits for jobs
must hold neither: both are hidden from it, and the environment files are read when a job starts.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import forkline_crewai
from forkline_crewai import original
from forkline_crewai.patches import secrets_at_import
from forkline_runner import findings
from forkline_runner.messages import Refused

# Imported only by a first task or a restore, depending on the version of the engine.
LATE = (
    *("crewai.hooks.contexts", "crewai.llms.cache", "crewai.skills.tool", "crewai.state.provider.utils"),
    *("crewai.tasks.hallucination_guardrail", "crewai.tasks.llm_guardrail", "crewai.tasks.conditional_task"),
    *("crewai.llms.providers.openai.completion", "crewai.llms.providers.anthropic.completion"),
    *("crewai.llms.providers.gemini.completion", "crewai.experimental.agent_executor"),
    *("crewai.memory.unified_memory", "crewai.tools.memory_tools"),
    *("openai.resources", "openai.resources.chat.completions", "openai.resources.responses"),
    *("httpcore._sync.connection_pool", "httpcore._async.connection_pool", "h11", "anyio._backends._asyncio"),
    *("asyncio", "encodings.idna", "runpy", "sqlite3", "concurrent.futures.thread"),
)
# Repeated in each job's process: where python-dotenv finds the file depends on the module that calls it.
dotenv_calls: list[secrets_at_import.Call] = []


class SignedIn(Exception):
    """A person is signed in, and this version of the engine reads that when it is imported."""


def load() -> None:
    """Import the engine. Raises ImportError if it is not installed, and SignedIn."""
    with suppress(Refused):
        # A job with a SQLite store does this first.
        original.use_recent_sqlite()
    with secrets_at_import.secrets_hidden(dotenv_calls):
        importlib.import_module("crewai")
        for part in pkgutil.walk_packages(forkline_crewai.__path__, "forkline_crewai."):
            importlib.import_module(part.name)
        for name in LATE:
            with suppress(ImportError):
                importlib.import_module(name)
    refuse_sign_in()


def begin() -> None:
    """Read the environment files that the engine requested at import. Call it in a job's process."""
    findings.forbid_keys_and_hosts()
    with suppress(ImportError):
        dotenv: Any = importlib.import_module("dotenv")
        for caller, arguments, named in dotenv_calls:
            if arguments or named:
                dotenv.load_dotenv(*arguments, **named)
            elif path := file_above(Path(caller)):
                dotenv.load_dotenv(path)


def file_above(module: Path) -> Path | None:
    """Return the environment file in a module's folder or the nearest one above it, or None."""
    return next((folder / ".env" for folder in module.parents if (folder / ".env").is_file()), None)


def refuse_sign_in() -> None:
    """Raise SignedIn if an older engine may have read the sign-in, which cannot be hidden from it."""
    older: Any = sys.modules.get("crewai.cli.shared.token_manager")
    if older is not None and older.TokenManager().get_token():
        raise SignedIn("a person is signed in to CrewAI, and this version keeps the sign-in in its memory")
