"""Imports, before there is a job, all that a job's child imports of the engine. Imported by the warm runner.

The engine reads environment files and a person's sign-in as it is imported. Neither is for a process that
waits: both are hidden from it, and the files are read once a job's child begins.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import forkline_crewai
from forkline_crewai.restore import original
from forkline_runner import placeholders
from forkline_runner.refusal import Refused

# What only a first task or a restore imports, in one version of the engine or another.
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
# Replayed in each child: where the file stands is asked from the module that wanted it.
wanted: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []


class SignedIn(Exception):
    """This version of the engine reads a person's sign-in as it is imported."""


def load() -> None:
    """Import it. Raises ImportError where there is no engine, or SignedIn."""
    with suppress(Refused):
        # As a child does first, where its store needs it.
        original.use_recent_sqlite()
    with _without_files(), _without_sign_in():
        importlib.import_module("crewai")
        for part in pkgutil.walk_packages(forkline_crewai.__path__, "forkline_crewai."):
            importlib.import_module(part.name)
        for name in LATE:
            with suppress(ImportError):
                importlib.import_module(name)
    refuse_sign_in()


def begin() -> None:
    """In a job's child: read the environment files that the engine wanted as it was imported."""
    placeholders.forbid()
    with suppress(ImportError):
        dotenv: Any = importlib.import_module("dotenv")
        for caller, arguments, named in wanted:
            if arguments or named:
                dotenv.load_dotenv(*arguments, **named)
            elif path := file_above(Path(caller)):
                dotenv.load_dotenv(path)


def file_above(module: Path) -> Path | None:
    """The environment file in the folder of a module, or the nearest one above it."""
    return next((folder / ".env" for folder in module.parents if (folder / ".env").is_file()), None)


@contextmanager
def _without_files() -> Iterator[None]:
    """Note which environment files are wanted, and read none."""
    try:
        dotenv: Any = importlib.import_module("dotenv")
    except ImportError:
        yield
        return

    def note(*arguments: Any, **named: Any) -> bool:
        wanted.append((sys._getframe(1).f_code.co_filename, arguments, named))
        return False

    def no_values(*arguments: Any, **named: Any) -> dict[str, str | None]:
        return {}

    with _replaced(dotenv, "load_dotenv", note), _replaced(dotenv, "dotenv_values", no_values):
        yield


@contextmanager
def _without_sign_in() -> Iterator[None]:
    try:
        tokens: Any = importlib.import_module("crewai_core.token_manager")
    except ImportError:
        yield
        return
    with _replaced(tokens.TokenManager, "get_token", lambda manager: None):
        yield


def refuse_sign_in() -> None:
    """Raises SignedIn where an older engine may hold the sign-in: it reads it before anybody can hide it."""
    older: Any = sys.modules.get("crewai.cli.shared.token_manager")
    if older is not None and older.TokenManager().get_token():
        raise SignedIn("a person is signed in to CrewAI, and this version keeps the sign-in in its memory")


@contextmanager
def _replaced(holder: Any, name: str, stand_in: Callable[..., Any]) -> Iterator[None]:
    kept = getattr(holder, name)
    setattr(holder, name, stand_in)
    try:
        yield
    finally:
        setattr(holder, name, kept)
