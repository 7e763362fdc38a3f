"""Effects: what a checkpoint would execute or reach besides the project's own code. Imports nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.engines.runner_request import Request

MAX_EFFECTS = 300
MAX_NAME = 300
# The runners refuse deeper values of a tool.
MAX_DEPTH = 60
# Of a long value, its start and its end are shown.
MAX_START, MAX_END = 140, 60
HIDDEN = "[redacted]"
SECRET_WORDS = {
    *("token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "pwd"),
    *("credential", "credentials", "apikey"),
}
KEY_WORDS = {"api", "private", "access", "auth", "encryption", "signing"}
ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://\S")
HOST_NAME = re.compile(
    r"(?:[\w-]+\.)+[A-Za-z]{2,}(?::\d+)?|\d+(?:\.\d+){3}(?::\d+)?|\[?[0-9A-Fa-f]*(?::[0-9A-Fa-f.]*){2,}\]?(?::\d+)?"
)
PATH = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:\\")
# The words of a field's name that say what its value is. Every other value is listed as well, as a value.
WORDS = {
    "command": """
        args argv bin binary cmd cmdline code command commands exec executable expression function program
        python query script shell sql statement
        """,
    "host": """
        address addresses broker domain domains dsn endpoint endpoints host hostname hosts ip ips
        origin proxies proxy server servers uri uris url urls webhook
        """,
    "file": """
        cwd database db dest destination dir directories directory dirs file filename files folder folders
        path paths root source
        """,
}
KIND_OF_WORD = {word: kind for kind, words in WORDS.items() for word in words.split()}


@dataclass(frozen=True)
class Effect:
    """``kind`` is module, command, file, host, key or value.

    ``name`` and ``detail`` are shown. ``digest`` is a hash of the complete content: of a module's source, or
    of a value. ``tool`` is what gets the value in ``field``, and ``given`` a hash of everything that it gets.
    """

    kind: str
    name: str
    detail: str = ""
    digest: str = ""
    tool: str = ""
    field: str = ""
    given: str = ""

    @property
    def key(self) -> str:
        """The text under which the effect is accepted and stored. Pages may redact its name.

        A value that was accepted for one field of a tool is another effect in another field, in another tool,
        and next to other values: reading a file is not deleting it.
        """
        parts = [self.kind, self.tool, self.field, self.digest or self.name, self.given]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def __str__(self) -> str:
        if not self.field:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.tool} {self.field} = {self.name}"


def unaccepted(found: Iterable[Effect], request: Request) -> list[Effect]:
    """Return the effects that nobody has accepted for the project."""
    accepted = set(request.get("accepted_effects") or [])
    return [] if "*" in accepted else [effect for effect in found if effect.key not in accepted]


def refuse_unaccepted(found: Iterable[Effect], request: Request) -> None:
    """Raise Refused unless a person has accepted all of these effects, as they are now."""
    if missing := unaccepted(found, request):
        raise refusal_of(missing)


def refusal_of(missing: Iterable[Effect]) -> Refused:
    """Return the refusal of effects that nobody has accepted."""
    return Refused("runner.effects_not_accepted", effects="; ".join(map(str, missing)))


def plain(found: Iterable[Effect], request: Request) -> list[dict[str, str]]:
    """Return the effects for a report, those that nobody has accepted first."""
    found = list(found)
    missing = set(unaccepted(found, request))
    ordered = sorted(found, key=lambda effect: effect not in missing)
    return [{**asdict(effect), "key": effect.key} for effect in ordered[:MAX_EFFECTS]]


def values_in(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each text, number and truth value in a JSON value, with its path in it.

    A name below which there is no value is yielded as one: it may be all that counts. What is too deep is
    yielded as JSON.
    """
    if depth > MAX_DEPTH:
        yield path, json.dumps(value, sort_keys=True)
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = name if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"
            below = list(values_in(item, f"{path}.{inner}" if path else inner, depth + 1))
            yield from below or ([(path, name)] if depth else [])
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from values_in(item, f"{path}[{number}]", depth + 1)
    elif value is not None:
        yield path, value


def value_effect(tool: str, field: str, value: Any, given: str) -> Effect:
    """Return the effect of a value that a checkpoint gives to a field of a tool."""
    text = value if isinstance(value, str) and value else json.dumps(value)
    name = HIDDEN if _is_secret_field(field) else shortened_text(text)
    return Effect(
        kind_of_value(field, text), name, f"{tool}: {field}"[:MAX_NAME], digest_of(value), tool, field, given
    )


def kind_of_value(field: str, text: str) -> str:
    """Return what a value is by the name of its field, else by its text: command, host, file or value."""
    for word in reversed(_words_of(field)):
        if kind := KIND_OF_WORD.get(word):
            # A path or an address says more than a word such as "source".
            return "host" if kind == "file" and ADDRESS.search(text) else kind
    if ADDRESS.search(text) or HOST_NAME.fullmatch(text):
        return "host"
    return "file" if PATH.match(text) else "value"


def is_secret(name: str) -> bool:
    """Return whether a field's or a class's name says that it holds a secret."""
    words = _words_of(name)
    is_key = any(first in KEY_WORDS and last == "key" for first, last in pairwise(words))
    return is_key or bool(SECRET_WORDS & set(words))


def _is_secret_field(path: str) -> bool:
    """Return whether a value is a secret by its name, or by those above if its own does not say what it is.

    A host below a secret name stays visible: a person has to know what is accepted.
    """
    above, _dot, name = path.rpartition(".")
    return is_secret(name) or (is_secret(above) and not KIND_OF_WORD.keys() & set(_words_of(name)))


def digest_of(value: Any) -> str:
    """Return a SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def shortened_text(text: str) -> str:
    """Return a text that may be shown: of a long one, its start, its length and its end."""
    if len(text) <= MAX_START + MAX_END:
        return text
    return f"{text[:MAX_START]} … ({len(text):,}) … {text[-MAX_END:]}"


def _words_of(name: str) -> list[str]:
    """Return the words of a name such as ``filePath`` or ``config.file-path``, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in re.split(r"[^A-Za-z]+", spaced.lower()) if word]
