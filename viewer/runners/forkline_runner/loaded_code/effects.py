"""Effects: what a checkpoint would execute or reach besides the project's own code. Imports nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from viewer.jobs.request import Request

MAX_EFFECTS = 300
MAX_NAME = 300
MAX_DEPTH = 12
ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@]*@)?(\[[^\]\s]+\]|[^\s/:?#]+)")
COMMAND = re.compile(r"(^|_)(command|cmd|executable|program|args|argv|script)($|_)", re.IGNORECASE)
FILE = re.compile(r"(^|_)(files?|paths?|folders?|dirs?|directory|directories|filename)($|_)", re.IGNORECASE)
PATH = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:\\")


@dataclass(frozen=True)
class Effect:
    """``kind`` is module, command, file, host or key. ``digest`` is a hash of the content, if it has any."""

    kind: str
    name: str
    detail: str = ""
    digest: str = ""

    @property
    def key(self) -> str:
        """The text under which the effect is accepted and stored. Pages may redact its name."""
        return hashlib.sha256("\0".join((self.kind, self.digest, self.name)).encode()).hexdigest()


def unaccepted(found: Iterable[Effect], request: Request) -> list[Effect]:
    """Return the effects that nobody has accepted for the project."""
    accepted = set(request.get("accepted_effects") or [])
    return [] if "*" in accepted else [effect for effect in found if effect.key not in accepted]


def refuse_unaccepted(found: Iterable[Effect], request: Request) -> None:
    """Raise Refused unless a person has accepted all of these effects, as they are now."""
    missing = unaccepted(found, request)
    if missing:
        raise Refused(
            "runner.effects_not_accepted",
            effects="; ".join(f"{one.kind} {one.name}" for one in missing),
        )


def plain(found: Iterable[Effect]) -> list[dict[str, str]]:
    """Return the effects for a report."""
    return [{**asdict(effect), "key": effect.key} for effect in list(found)[:MAX_EFFECTS]]


def in_value(field: str, value: Any, tool: str, depth: int = 0) -> Iterator[Effect]:
    """Yield the hosts, commands and files that one field of a tool names."""
    if depth > MAX_DEPTH:
        yield _named("command", json.dumps(value, default=str), f"{tool}: {field}")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from in_value(f"{field}.{name}", item, tool, depth + 1)
    elif isinstance(value, list) and not COMMAND.search(field.rpartition(".")[2]):
        for item in value:
            yield from in_value(field, item, tool, depth + 1)
    elif isinstance(value, (str, list)) and value:
        text = value if isinstance(value, str) else " ".join(map(str, value))
        last = field.rpartition(".")[2]
        if COMMAND.search(last):
            yield _named("command", text, f"{tool}: {field}")
        hosts = ADDRESS.findall(text)
        for host in hosts:
            yield _named("host", host.lower(), f"{tool}: {field}")
        if not hosts and (FILE.search(last) or PATH.match(text)):
            yield _named("file", text, f"{tool}: {field}")


def _named(kind: str, text: str, detail: str) -> Effect:
    """Return an effect whose long name is shortened, and then identified by its hash."""
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest() if len(text) > MAX_NAME else ""
    return Effect(kind, text[:MAX_NAME], detail[:MAX_NAME], digest)
