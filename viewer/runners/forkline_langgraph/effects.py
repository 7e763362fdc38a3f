"""What a stored value names, and the effects of a checkpoint: what loading it would import. Imports nothing.

Values name classes, which the engine's serializer imports and calls. A short list of classes that only hold
data, and classes of the same kind in the project's own source that its entry points import, need no
acceptance. Everything else does, with exactly the arguments that are stored, and so does any pickled value.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import forkline_guard
from forkline_runner import effects, resolving
from forkline_runner.effects import (
    HIDDEN,
    MAX_NAME,
    Effect,
    is_secret,
    refusal_of,
    shortened_text,
)
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_langgraph.checkpoints import LoadedValue
    from viewer.engines.runner_protocol import Request


# The engine's extension types (langgraph/checkpoint/serde/jsonplus.py) whose payload is module, name,
# argument and, for some, a method.
CONSTRUCTORS = range(6)
NUMPY, SNAPSHOT = 6, 7
HARMLESS = {"null", "empty", "bytes", "bytearray"}
# The methods that the engine itself stores with pydantic's models. It calls the class instead.
STORED_METHODS = {4: ("construct",), 5: ("model_validate_json", "model_construct")}
# The values of ``method`` with which older versions call the class itself, in JSON.
CONSTRUCTS = ([None, "construct"], "construct", "model_construct", None, "")
# The values of ``lc`` that make the engine revive a JSON object: its own and LangChain's.
OWN_JSON, LANGCHAIN_JSON = 2, 1
# How much of the arguments is shown.
MAX_ITEMS = 8
MAX_NESTING = 4


@dataclass(frozen=True, order=True)
class NamedType:
    """A class or function that is called; if ``method`` is not empty, that method of it is called.

    ``stored`` is everything that it is called with, as it is stored; ``given`` is the same, decoded.
    """

    module: str
    name: str
    method: str = ""
    stored: bytes = b""
    given: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return ".".join(part for part in (self.module, self.name, self.method) if part)

    @property
    def arguments(self) -> str:
        """A short text of the arguments, without the values of secret fields."""
        return HIDDEN if is_secret(self.name) else _shown(self.given)

    @property
    def text(self) -> str | None:
        """The only argument, if that is a text."""
        only = self.given[0] if isinstance(self.given, list) and len(self.given) == 1 else self.given
        return only if isinstance(only, str) else None

    @property
    def digest(self) -> str:
        """A hash of everything that it is called with."""
        return hashlib.sha256(self.stored).hexdigest()


class UnreadableValue(ValueError):
    """The stored value has an unknown type, or is malformed."""


class Pickled(UnreadableValue):
    """The stored value is a pickle, which can run any code when it is loaded."""


class Encrypted(UnreadableValue):
    """The stored value is encrypted."""


def named_in(kind: str | None, data: bytes | None) -> set[NamedType]:
    """Return the classes and functions that a value names. ``kind`` is its type column.

    Raises UnreadableValue.
    """
    if kind is None or kind in HARMLESS or not data:
        return set()
    if "+" in kind:
        raise Encrypted(kind)
    if kind == "pickle":
        raise Pickled(kind)
    try:
        if kind == "msgpack":
            return set(_in_msgpack(data))
        if kind == "json":
            return set(_in_json(json.loads(data)))
    except UnreadableValue:
        raise
    except (ValueError, TypeError, RecursionError, LookupError) as error:
        raise UnreadableValue(str(error)) from error
    raise UnreadableValue(kind)


def _in_msgpack(data: bytes) -> Iterator[NamedType]:
    import ormsgpack

    found: list[NamedType] = []

    def unpacked(packed: bytes) -> Any:
        return ormsgpack.unpackb(packed, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)

    def hook(code: int, payload: bytes) -> Any:
        if code in CONSTRUCTORS:
            named = _named(code, unpacked(payload), payload)
            found.append(named)
            return named
        if code in (NUMPY, SNAPSHOT):
            inner = unpacked(payload)
            return inner if code == SNAPSHOT else "numpy.ndarray"
        raise UnreadableValue(f"extension type {code}")

    unpacked(data)
    return iter(found)


def _named(code: int, parts: Any, payload: bytes) -> NamedType:
    # Anything but a list could differ from what the engine reads in its place.
    if not isinstance(parts, list) or len(parts) < 3:
        raise UnreadableValue("an object without a name")
    module, name = parts[:2]
    method = parts[3] if len(parts) > 3 else None
    if method in STORED_METHODS.get(code, ()):
        method = None
    if not all(isinstance(part, str) for part in (module, name, method or "")):
        raise UnreadableValue("a name that is not a text")
    return NamedType(module, name, method or "", bytes([code]) + payload, parts[2])


def _in_json(value: Any) -> Iterator[NamedType]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            pending += one.values()
            # Compared as the engine does: 2.0 and true count as well.
            if one.get("lc") in (OWN_JSON, LANGCHAIN_JSON) and one.get("id") is not None:
                yield _named_in_json(one)


def _named_in_json(one: dict[str, Any]) -> NamedType:
    path = one["id"]
    # The engine unpacks the id: of a mapping its keys, of an object whatever that yields.
    if not isinstance(path, list) or not path or not all(isinstance(part, str) for part in path):
        raise UnreadableValue("an object whose id is not a list of texts")
    if one["lc"] == LANGCHAIN_JSON:
        path = LANGCHAIN_PATHS.get(tuple(path), path)
    method = one.get("method")
    given = {name: one[name] for name in ("args", "kwargs") if one.get(name)}
    stored = json.dumps([one["lc"], one.get("type"), given], sort_keys=True).encode(errors="replace")
    arguments = next(iter(given.values()), None) if len(given) < 2 else given
    return NamedType(
        ".".join(path[:-1]), path[-1], "" if method in CONSTRUCTS else json.dumps(method), stored, arguments
    )


def _shown(value: Any, depth: int = 0) -> str:
    """Return a short text of a decoded value, without the values of secret fields."""
    if depth >= MAX_NESTING and isinstance(value, NamedType | list | dict):
        return "…"
    if isinstance(value, NamedType):
        return f"{value} {HIDDEN if is_secret(value.name) else _shown(value.given, depth + 1)}"
    if isinstance(value, list):
        shown = [_shown(item, depth + 1) for item in value[:MAX_ITEMS]]
    elif isinstance(value, dict):
        shown = [
            f"{_shown(name, depth + 1)}={HIDDEN if is_secret(str(name)) else _shown(item, depth + 1)}"
            for name, item in list(value.items())[:MAX_ITEMS]
        ]
    else:
        return shortened_text(value if isinstance(value, str) else repr(value))
    if len(value) > MAX_ITEMS:
        shown.append(f"… ({len(value)})")
    return "(" + ", ".join(shown) + ")"


# The modules of LangChain's messages, and their classes without those of streamed parts.
MESSAGES = {
    "ai": "AIMessage",
    "base": "BaseMessage",
    "chat": "ChatMessage",
    "function": "FunctionMessage",
    "human": "HumanMessage",
    "modifier": "RemoveMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
}
# Where LangChain's loader finds the messages and documents that older versions named by their former module
# (langchain_core/load/mapping.py).
LANGCHAIN_PATHS = {
    **{
        ("langchain", "schema", "messages", name): ["langchain_core", "messages", module, name]
        for module, message in MESSAGES.items()
        for name in (message, *([f"{message}Chunk"] if module in ("ai", "base") else []))
    },
    ("langchain", "schema", "document", "Document"): ["langchain_core", "documents", "base", "Document"],
}
# The packages of the engine. Most of their classes do more than hold data: one opens its file at once.
ENGINE_PACKAGES = {"langgraph", "langchain_core"}
# Classes that only hold what they are given, whatever that is. Each was read, with its validators and
# defaults, in every supported version. tests/runners/langgraph/test_data_classes.py makes each of them under
# an audit hook, and checks that no other class of both packages is accepted.
DATA_CLASSES = {
    (module, name)
    for module, names in {
        "datetime": "datetime date time timedelta timezone",
        "builtins": "set frozenset",
        "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
        "pathlib": "Path PosixPath",
        "pathlib._local": "Path PosixPath",
        "uuid": "UUID",
        "decimal": "Decimal",
        "collections": "deque",
        "re": "compile",
        **{
            f"langchain_core.messages.{module}": f"{message} {message}Chunk"
            for module, message in MESSAGES.items()
        },
        "langchain_core.messages.modifier": "RemoveMessage",
        # Not Blob, its neighbour, which reads its path when it is used.
        "langchain_core.documents.base": "Document",
        "langchain_core.prompt_values": "StringPromptValue ChatPromptValue ChatPromptValueConcrete"
        " ImagePromptValue",
        "langchain_core.outputs.generation": "Generation GenerationChunk",
        "langchain_core.outputs.chat_generation": "ChatGeneration ChatGenerationChunk",
        "langchain_core.outputs.chat_result": "ChatResult",
        "langchain_core.outputs.llm_result": "LLMResult",
        "langchain_core.outputs.run_info": "RunInfo",
        "langchain_core.agents": "AgentAction AgentActionMessageLog AgentStep AgentFinish",
        "langgraph.types": "Send Interrupt Command Overwrite TimeoutPolicy StateSnapshot StateUpdate"
        " PregelTask CacheKey",
        "langgraph.store.base": "Item SearchItem GetOp",
    }.items()
    for name in names.split()
}
DATA_METHODS = {("datetime", "datetime", "fromisoformat")}
# Reads the file of a time zone, or imports the package that has it; any other text could name another file.
ZONE = ("zoneinfo", "ZoneInfo")
ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,3}")


class Loadable:
    """What one request may load: data, the project's own classes, and what a person has accepted."""

    def __init__(self, request: Request) -> None:
        self._accepted = set(request.get("accepted_effects") or [])
        self._own = resolving.imported_by([*(request.get("entry_points") or []), request["entry_point"]])
        self._is_own: dict[tuple[str, str], bool] = {}
        # The classes that values name, for the engine's own list of what it may load.
        self.allowed: set[tuple[str, str]] = set()
        self.has_pickles = False
        # The files of modules that need acceptance, read once: what is accepted is what is pinned.
        self._files: dict[str, tuple[resolving.ModuleFile, ...]] = {}
        # The classes of accepted effects, whose objects a person may edit.
        self._editable: set[str] = set()
        # Hashes of the values that this run has stored: its own code made them.
        self._stored: set[bytes] = set()

    def effects_in(self, values: Iterable[LoadedValue]) -> list[Effect]:
        """Return the effects of these values besides the project's own code, each once. Raises Refused."""
        found: dict[str, Effect] = {}
        for value in values:
            for effect in self._effects_of(value.type, value.data, value.what):
                found.setdefault(effect.key, effect)
        return list(found.values())

    def pin_modules(self) -> None:
        """Allow modules that needed acceptance to be imported only with their current content."""
        for file in {file for files in self._files.values() for file in files}:
            if file.name not in sys.modules:
                forkline_guard.pin(file.name, file.path, file.digest)

    def add_stored(self, data: bytes) -> None:
        """Allow a value that this run has stored to be loaded again."""
        self._stored.add(hashlib.sha256(data).digest())

    def check(self, kind: str | None, data: bytes | None) -> None:
        """Raise Refused if a value names something that may not be loaded."""
        if data and hashlib.sha256(data).digest() in self._stored:
            return
        missing = [one for one in self._effects_of(kind, data, "") if not self._is_accepted(one)]
        if missing:
            raise refusal_of(missing)

    def check_type(self, named: NamedType) -> None:
        """Raise Refused if an edited value names a class that may not be loaded.

        A person has typed the value, so that the class itself must be accepted, with any arguments.
        """
        self.allowed.add((named.module, named.name))
        if self._needs_no_acceptance(named) or "*" in self._accepted or str(named) in self._editable:
            return
        raise refusal_of([self._effect_of(named, "")])

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
                effect = self._effect_of(one, what)
                if self._is_accepted(effect):
                    self._editable.add(str(one))
                yield effect

    def _is_accepted(self, effect: Effect) -> bool:
        return "*" in self._accepted or effect.key in self._accepted

    def _needs_no_acceptance(self, named: NamedType) -> bool:
        if named.method:
            return (named.module, named.name, named.method) in DATA_METHODS
        called = (named.module, named.name)
        if called == ZONE:
            return ZONE_NAME.fullmatch(named.text or "") is not None
        if called in DATA_CLASSES:
            return True
        if called not in self._is_own:
            self._is_own[called] = (
                named.module in self._own
                and named.module.partition(".")[0] not in ENGINE_PACKAGES
                and effects.is_data_class(named.module, named.name, DATA_CLASSES)
            )
        return self._is_own[called]

    def _effect_of(self, named: NamedType, what: str) -> Effect:
        title, detail = str(named), f"{what}: {named.arguments}"[:MAX_NAME]
        if not named.module:
            # LangChain's name of a secret, which its loader reads from the environment.
            return Effect("key", title[:MAX_NAME], what[:MAX_NAME], tool=title)
        if named.module not in self._files:
            self._files[named.module] = resolving.files_if_found(named.module)
        files = self._files[named.module]
        # Without files: a module of the standard library, or one that is not installed.
        kind, digest = ("module", resolving.digest_of(files)) if files else ("command", "")
        return Effect(kind, title[:MAX_NAME], detail, digest, title, given=named.digest)
