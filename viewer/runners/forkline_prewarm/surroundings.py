"""What imports have made of their surroundings: a job runs warm only where it would find the same, cold."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Read by the interpreter, by libraries in C, or by going through all names: nobody sees them being asked for.
UNSEEN_BEGINNINGS = (
    *("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_"),
    *("OPENBLAS_", "OMP_", "MKL_", "KMP_", "CHROMA_", "GRPC_"),
)
UNSEEN_ENDINGS = ("_PROXY", "_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
# Where our own parts stand.
PARTS = Path(__file__).resolve().parent.parent


@dataclass
class Surroundings:
    """``given`` was the environment at the start. Of what was imported, ``seen`` was read there, and ``made``
    was set there (None: deleted); ``modules`` are the top names of what was loaded."""

    given: dict[str, str]
    seen: dict[str, str | None] = field(default_factory=dict)
    made: dict[str, str | None] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()

    def enter(self, environment: Mapping[str, str]) -> None:
        """Make this the process's environment, as a cold child would have it after the same imports."""
        os.environ.clear()
        os.environ.update(environment)
        for name, value in self.made.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def other_variable(self, environment: Mapping[str, str]) -> str:
        """A variable that had another value when it mattered; empty where there is none. Once entered."""
        for name in sorted({*environment, *self.given}):
            if is_unseen(name) and environment.get(name) != self.given.get(name):
                return name
        return next((name for name, value in self.seen.items() if os.environ.get(name) != value), "")

    def other_module(self, folder: Path) -> str:
        """A module of the project that a cold child would have imported instead; empty where none is."""
        for place in (folder, folder / "src"):
            for entry in place.iterdir() if place.is_dir() else ():
                is_module = entry.suffix == ".py" or (entry / "__init__.py").is_file()
                if is_module and entry.name.removesuffix(".py") in self.modules:
                    return entry.name
        return ""


def is_unseen(name: str) -> bool:
    """Whether nobody sees this variable being asked for."""
    return name.startswith(UNSEEN_BEGINNINGS) or name.upper().endswith(UNSEEN_ENDINGS)


@contextmanager
def watched() -> Iterator[Surroundings]:
    """What is imported in this block, and what it reads of the environment and sets there."""
    found = Surroundings(given_environment())
    before = top_names()
    set_at_start = {name for name in os.environ if name not in found.given}
    kind: Any = type(os.environ)
    read, write = kind.__getitem__, kind.__setitem__
    own: set[str] = set()

    def reading(self: Any, name: str) -> str:
        if name not in own:
            found.seen.setdefault(name, found.given.get(name))
        value: str = read(self, name)
        return value

    def writing(self: Any, name: str, value: str) -> None:
        own.add(name)
        write(self, name, value)

    kind.__getitem__, kind.__setitem__ = reading, writing
    try:
        yield found
    finally:
        kind.__getitem__, kind.__setitem__ = read, write
    now = dict(os.environ)
    changed = {name for name in {*now, *found.given} if now.get(name) != found.given.get(name)}
    # The interpreter itself may have set some, before anything was imported.
    found.made = {name: now.get(name) for name in changed}
    found.seen = {name: value for name, value in found.seen.items() if name not in set_at_start}
    found.modules = frozenset(top_names() - before)


def given_environment() -> dict[str, str]:
    """The environment that this process was started with."""
    pairs = (part.partition(b"=") for part in Path("/proc/self/environ").read_bytes().split(b"\0") if part)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def top_names() -> set[str]:
    """The packages and modules that are loaded, without what is in them."""
    return {name.partition(".")[0] for name in sys.modules} - {
        "forkline_crewai",
        "forkline_prewarm",
        "forkline_runner",
    }


def module_within(folder: Path) -> str:
    """A loaded module whose file stands in this folder, but in no environment there; empty: none does."""
    environment = Path(sys.prefix).resolve()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        place = Path(os.path.realpath(file))
        if place.is_relative_to(folder) and not any(
            place.is_relative_to(other) for other in (environment, PARTS)
        ):
            return name
    return ""
