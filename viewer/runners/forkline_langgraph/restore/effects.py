"""The effects of a LangGraph checkpoint: what loading its values would import. Imports nothing.

Values name classes, which the engine's serializer imports and calls. Classes of the engine and of the
project's own modules need no acceptance. Everything else does, including any pickled value.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forkline_guard import guard
from forkline_langgraph.restore.named_types import Encrypted, NamedType, Pickled, UnreadableValue, named_in
from forkline_runner.loaded_code import resolving
from forkline_runner.loaded_code.effects import MAX_NAME, Effect
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_langgraph.restore.source_store import LoadedValue
    from viewer.jobs.request import Request

ENGINE_MODULES = ("langgraph.", "langchain_core.")
# What the engine itself loads in its strict mode (langgraph/checkpoint/serde/_msgpack.py).
SAFE = {
    *(("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")),
    *(("builtins", name) for name in ("set", "frozenset")),
    *(("ipaddress", f"IPv{number}{name}") for number in "46" for name in ("Address", "Interface", "Network")),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("Path", "PosixPath")),
    *(("uuid", "UUID"), ("decimal", "Decimal"), ("collections", "deque")),
    *(("zoneinfo", "ZoneInfo"), ("re", "compile")),
}
SAFE_METHODS = {("datetime", "datetime", "fromisoformat")}
MAX_SOURCE_BYTES = 1024 * 1024


class Loadable:
    """What one request may load: the engine's and the project's classes, and what a person has accepted."""

    def __init__(self, request: Request) -> None:
        self._accepted = set(request.get("accepted_effects") or [])
        self._own = resolving.imported_by([*(request.get("entry_points") or []), request["entry_point"]])
        self._decided: dict[NamedType, bool] = {}
        # The classes that values name, for the engine's own list of what it may load.
        self.allowed: set[tuple[str, str]] = set()
        self.has_pickles = False
        self._modules_to_pin: set[str] = set()

    def effects_in(self, values: Iterable[LoadedValue]) -> list[Effect]:
        """Return the effects of these values besides the project's own code, each once. Raises Refused."""
        found: dict[str, Effect] = {}
        for value in values:
            for effect in self._effects_of(value.type, value.data, value.what):
                found.setdefault(effect.key, effect)
        return list(found.values())

    def pin_modules(self) -> None:
        """Allow modules that needed acceptance to be imported only with their current content."""
        for module in self._modules_to_pin:
            for file in resolving.files_if_found(module):
                if file.name not in sys.modules:
                    guard.pin(file.name, file.path, file.digest)

    def check(self, kind: str | None, data: bytes | None) -> None:
        """Raise Refused if a value names something that may not be loaded."""
        missing = [one for one in self._effects_of(kind, data, "") if not self._is_accepted(one)]
        if missing:
            raise Refused(
                "runner.effects_not_accepted",
                effects="; ".join(f"{one.kind} {one.name}" for one in missing),
            )

    def check_type(self, named: NamedType) -> None:
        """Raise Refused if an edited value names a class that may not be loaded."""
        self.allowed.add((named.module, named.name))
        if not self._needs_no_acceptance(named):
            effect = _effect_of(named, "")
            if not self._is_accepted(effect):
                raise Refused("runner.effects_not_accepted", effects=f"{effect.kind} {effect.name}")

    def _effects_of(self, kind: str | None, data: bytes | None, what: str) -> Iterator[Effect]:
        try:
            named = named_in(kind, data)
        except Pickled:
            self.has_pickles = True
            digest = hashlib.sha256(data or b"").hexdigest()
            yield Effect("command", "pickle", what[:MAX_NAME], digest)
            return
        except Encrypted as error:
            raise Refused("langgraph.value_encrypted", what=what, type=error) from error
        except UnreadableValue as error:
            raise Refused("langgraph.value_unreadable", what=what, error=error) from error
        for one in sorted(named):
            self.allowed.add((one.module, one.name))
            if not self._needs_no_acceptance(one):
                self._modules_to_pin.add(one.module)
                yield _effect_of(one, what)

    def _is_accepted(self, effect: Effect) -> bool:
        return "*" in self._accepted or effect.key in self._accepted

    def _needs_no_acceptance(self, named: NamedType) -> bool:
        if named not in self._decided:
            self._decided[named] = self._decide(named)
        return self._decided[named]

    def _decide(self, named: NamedType) -> bool:
        if named.method:
            return (named.module, named.name, named.method) in SAFE_METHODS
        if (named.module, named.name) in SAFE:
            return True
        if named.module.startswith(ENGINE_MODULES):
            # The engine's modules also have functions, which the engine's own values never name.
            return named.name[:1].isupper()
        return named.module in self._own and _is_class(named)


def _effect_of(named: NamedType, what: str) -> Effect:
    files = resolving.files_if_found(named.module)
    if not files:
        # A module of the standard library, or one that is not installed.
        return Effect("command", str(named)[:MAX_NAME], what[:MAX_NAME])
    name = str(named)[:MAX_NAME]
    return Effect("module", name, files[-1].path, resolving.digest_of(files))


def _is_class(named: NamedType) -> bool:
    """Return whether the module's source defines a class of this name. A function could do anything."""
    files = resolving.files_if_found(named.module)
    if not files:
        return False
    try:
        source = Path(files[-1].path).read_bytes()
        tree = ast.parse(source) if len(source) <= MAX_SOURCE_BYTES else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == named.name for node in tree.body)
