"""The effects of a LangGraph checkpoint: what loading its values would import. Imports nothing.

Values name classes, which the engine's serializer imports and calls. A short list of classes that only hold
data, and classes of the same kind in the project's own source that its entry points import, need no
acceptance. Everything else does, with exactly the arguments that are stored, and so does any pickled value.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from forkline_guard import guard
from forkline_langgraph.restore.named_types import Encrypted, NamedType, Pickled, UnreadableValue, named_in
from forkline_runner import own_code, resolving
from forkline_runner.effects import MAX_NAME, Effect, refusal_of
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_langgraph.restore.source_store import LoadedValue
    from viewer.host.jobs.request import Request

# The packages of the engine. Most of their classes do more than hold data: one opens its file at once.
ENGINE_PACKAGES = {"langgraph", "langchain_core"}
# Classes that only hold what they are given, whatever that is. Each was read, with its validators and
# defaults, in every supported version. tests/runners/langgraph/test_data_classes.py makes each of them under
# an audit hook, and checks that no other class of both packages is accepted.
DATA_CLASSES = {
    *(("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")),
    *(("builtins", name) for name in ("set", "frozenset")),
    *(("ipaddress", f"IPv{number}{name}") for number in "46" for name in ("Address", "Interface", "Network")),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("Path", "PosixPath")),
    *(("uuid", "UUID"), ("decimal", "Decimal"), ("collections", "deque"), ("re", "compile")),
    *(
        (f"langchain_core.messages.{module}", name)
        for module, names in {
            "base": ("BaseMessage", "BaseMessageChunk"),
            "human": ("HumanMessage", "HumanMessageChunk"),
            "ai": ("AIMessage", "AIMessageChunk"),
            "system": ("SystemMessage", "SystemMessageChunk"),
            "chat": ("ChatMessage", "ChatMessageChunk"),
            "tool": ("ToolMessage", "ToolMessageChunk"),
            "function": ("FunctionMessage", "FunctionMessageChunk"),
            "modifier": ("RemoveMessage",),
        }.items()
        for name in names
    ),
    # Not Blob, its neighbour, which reads its path when it is used.
    ("langchain_core.documents.base", "Document"),
    *(
        ("langchain_core.prompt_values", name)
        for name in ("StringPromptValue", "ChatPromptValue", "ChatPromptValueConcrete", "ImagePromptValue")
    ),
    *(("langchain_core.outputs.generation", name) for name in ("Generation", "GenerationChunk")),
    *(("langchain_core.outputs.chat_generation", name) for name in ("ChatGeneration", "ChatGenerationChunk")),
    ("langchain_core.outputs.chat_result", "ChatResult"),
    ("langchain_core.outputs.llm_result", "LLMResult"),
    ("langchain_core.outputs.run_info", "RunInfo"),
    *(
        ("langchain_core.agents", name)
        for name in ("AgentAction", "AgentActionMessageLog", "AgentStep", "AgentFinish")
    ),
    *(
        ("langgraph.types", name)
        for name in (
            "Send",
            "Interrupt",
            "Command",
            "Overwrite",
            "TimeoutPolicy",
            "StateSnapshot",
            "StateUpdate",
            "PregelTask",
            "CacheKey",
        )
    ),
    *(("langgraph.store.base", name) for name in ("Item", "SearchItem", "GetOp")),
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
                guard.pin(file.name, file.path, file.digest)

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
                and own_code.is_data_class(named.module, named.name, DATA_CLASSES)
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
