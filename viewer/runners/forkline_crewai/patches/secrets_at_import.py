"""Patches for the import of the engine in a prewarmed process. Does not import the engine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

# A load_dotenv call: the file of the module that made it, its arguments and keyword arguments.
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@contextmanager
def secrets_hidden(calls: list[Call]) -> Iterator[None]:
    """Hide environment files and a person's sign-in from the engine while it is imported in this block.

    Calls of ``load_dotenv`` are appended to ``calls``.

    Patches: dotenv.load_dotenv, dotenv.dotenv_values, crewai_core.token_manager.TokenManager.get_token
    Versions: 1.14.2 and newer; only 1.14.7 and newer have crewai_core
    Why: A prewarmed process waits for jobs and must hold no secret. The engine reads both when it is
        imported.
    Test: tests/runners/test_patches.py::test_environment_files_and_sign_in_are_hidden_at_import
    """
    with _without_files(calls), _without_sign_in():
        yield


@contextmanager
def _without_files(calls: list[Call]) -> Iterator[None]:
    try:
        dotenv: Any = importlib.import_module("dotenv")
    except ImportError:
        yield
        return

    def record_call(*arguments: Any, **named: Any) -> bool:
        calls.append((sys._getframe(1).f_code.co_filename, arguments, named))
        return False

    def no_values(*arguments: Any, **named: Any) -> dict[str, str | None]:
        return {}

    with patch.multiple(dotenv, load_dotenv=record_call, dotenv_values=no_values):
        yield


@contextmanager
def _without_sign_in() -> Iterator[None]:
    try:
        tokens: Any = importlib.import_module("crewai_core.token_manager")
    except ImportError:
        yield
        return
    with patch.object(tokens.TokenManager, "get_token", lambda manager: None):
        yield
