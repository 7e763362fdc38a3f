"""Keeps keys out of a preflight check: environment files yield placeholders, and no host is contacted.

The environment of the process has placeholders already. This covers the environment files that the project's
code or the engine reads.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# Set in the environment of a preflight check: the path of the project's environment file, or a dash.
PREFLIGHT = "FORKLINE_PREFLIGHT"
PLACEHOLDER = "placeholder-of-a-preflight-check"
_reading = threading.local()
_is_installed = False


def forbid() -> None:
    """In a preflight check, hide the values of environment files and refuse connections."""
    global _is_installed  # noqa: PLW0603
    if _is_installed or not os.environ.get(PREFLIGHT):
        return
    _is_installed = True
    with suppress(ImportError):
        _replace_values(importlib.import_module("dotenv.main").DotEnv)
    sys.addaudithook(_audit)


@contextmanager
def allowed() -> Iterator[None]:
    """Allow this thread to read environment files in the block, even in a preflight check."""
    _reading.is_allowed = True
    try:
        yield
    finally:
        _reading.is_allowed = False


def _replace_values(reader: Any) -> None:
    """Make python-dotenv, which pydantic uses too, return placeholders for all values."""
    parse = reader.parse

    def placeholders(self: Any) -> Iterator[tuple[str, str | None]]:
        with allowed():
            pairs = list(parse(self))
        for name, value in pairs:
            yield name, value and os.environ.get(name, PLACEHOLDER)

    reader.parse = placeholders


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if _is_environment_file(path) and not getattr(_reading, "is_allowed", False):
            raise FileNotFoundError(2, "A preflight check reads no environment file", path)
    elif event == "socket.connect":
        connecting, _address = arguments
        if connecting.family in (socket.AF_INET, socket.AF_INET6):
            raise ConnectionRefusedError(111, "A preflight check contacts no host")
    elif event == "socket.getaddrinfo":
        raise socket.gaierror(socket.EAI_AGAIN, "A preflight check contacts no host")


def _is_environment_file(path: str) -> bool:
    name = Path(path).name
    if name == ".env" or name.startswith(".env."):
        return True
    given = os.environ.get(PREFLIGHT, "")
    return name == Path(given).name and os.path.realpath(path) == os.path.realpath(given)
