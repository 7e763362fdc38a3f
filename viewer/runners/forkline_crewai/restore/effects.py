"""What a checkpoint itself would have a run do beside the project's own code. Imports nothing. No engine.

What sanitising drops has no effect, so that only tools and models are left: with an entry point, and for a
flow, they come from the project's own code, and the checkpoint adds nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from forkline_crewai.restore.sanitizing import MADE_OF_FUNCTIONS, OWN_TOOLS, address_names, provider_of
from forkline_guard import guard
from forkline_runner import resolving
from forkline_runner.messages import gettext_noop as _
from forkline_runner.refusal import Refused
from forkline_runner.resolving import ModuleFile, Unresolved

if TYPE_CHECKING:
    from viewer.jobs.spool import Request

MAX_EFFECTS = 300
MAX_NAME = 300
MAX_DEPTH = 12
# Fields that every tool of the engine has.
USUAL_FIELDS = frozenset(
    """
    name description tool_type env_vars args_schema result_schema description_updated cache_function
    result_as_answer max_usage_count current_usage_count package_dependencies
    """.split()  # noqa: SIM905 - a list of words
)
ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@]*@)?(\[[^\]\s]+\]|[^\s/:?#]+)")
COMMAND = re.compile(r"(^|_)(command|cmd|executable|program|args|argv|script)($|_)", re.IGNORECASE)
FILE = re.compile(r"(^|_)(files?|paths?|folders?|dirs?|directory|directories|filename)($|_)", re.IGNORECASE)
PATH = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:\\")


# The variables that hold a provider's keys, where they are not called after it alone.
KEYS = {
    "azure": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}


@dataclass(frozen=True)
class Effect:
    """``kind`` is module, command, file, host or key. Consent is bound to ``digest``, the content's hash."""

    kind: str
    name: str
    detail: str = ""
    digest: str = ""

    @property
    def key(self) -> str:
        """What it is accepted by, and stored by: its name may hold what is hidden where it is shown."""
        return hashlib.sha256("\0".join((self.kind, self.digest, self.name)).encode()).hexdigest()


def effects_of(saved: Mapping[str, Any], request: Request, environment: Mapping[str, str]) -> list[Effect]:
    """What this checkpoint adds to the project's own code, each once. ``saved`` is its root entity."""
    if request["entry_point"] or request["entity"] == "flow" or not saved:
        return []
    found: dict[str, Effect] = {}
    own = resolving.imported_by(request.get("entry_points") or [])
    for effect in (*_of_tools(saved, own, environment), *_of_models(saved, environment)):
        found.setdefault(effect.key, effect)
    return list(found.values())


def unaccepted(found: Iterable[Effect], request: Request) -> list[Effect]:
    """Those that nobody has accepted for the project."""
    accepted = set(request.get("accepted_effects") or [])
    return [] if "*" in accepted else [effect for effect in found if effect.key not in accepted]


def refuse_unaccepted(found: Iterable[Effect], request: Request) -> None:
    """Raises Refused where a person has not accepted all of these, as they are now."""
    missing = unaccepted(found, request)
    if missing:
        raise Refused(
            _(
                "Nothing has run: the checkpoint has effects that nobody has accepted for this project: "
                "%(effects)s. Accept them in the form, or with --accept-effects; or name the entry point."
            ),
            effects="; ".join(f"{one.kind} {one.name}" for one in missing),
        )


def plain(found: Iterable[Effect]) -> list[dict[str, str]]:
    """The effects for a report."""
    return [{**asdict(effect), "key": effect.key} for effect in list(found)[:MAX_EFFECTS]]


def pin_modules(saved: Mapping[str, Any], request: Request) -> None:
    """Have the modules that the checkpoint names imported only with the content that they have now."""
    if request["entry_point"] or request["entity"] == "flow":
        return
    own = resolving.imported_by(request.get("entry_points") or [])
    for tool in _tools_in(saved):
        for file in _resolved(str(tool["tool_type"]).rpartition(".")[0]):
            if file.name not in own and file.name not in sys.modules:
                guard.pin(file.name, file.path, file.digest)


def _of_tools(saved: Mapping[str, Any], own: set[str], environment: Mapping[str, str]) -> Iterator[Effect]:
    for tool in _tools_in(saved):
        kind = str(tool["tool_type"])
        module = kind.rpartition(".")[0]
        files = _resolved(module)
        # What cannot be resolved is refused by sanitising, with the reason.
        if files and not kind.startswith("crewai.") and module not in own:
            yield Effect("module", module, files[-1].path, resolving.digest_of(files))
        for variable in tool.get("env_vars") or []:
            name = variable.get("name") if isinstance(variable, dict) else variable
            if isinstance(name, str) and environment.get(name):
                yield Effect("key", name[:MAX_NAME], kind)
        for field, value in tool.items():
            if field not in USUAL_FIELDS:
                yield from _of_value(field, value, kind)


def _of_value(field: str, value: Any, tool: str, depth: int = 0) -> Iterator[Effect]:
    """The hosts, commands and files that one value of a tool names."""
    if depth > MAX_DEPTH:
        yield _named("command", json.dumps(value, default=str), f"{tool}: {field}")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _of_value(f"{field}.{name}", item, tool, depth + 1)
    elif isinstance(value, list) and not COMMAND.search(field.rpartition(".")[2]):
        for item in value:
            yield from _of_value(field, item, tool, depth + 1)
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
    """A long text is shortened, and told apart by its hash."""
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest() if len(text) > MAX_NAME else ""
    return Effect(kind, text[:MAX_NAME], detail[:MAX_NAME], digest)


def _of_models(saved: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Effect]:
    """The services that the checkpoint's models are sent to, and the keys that they are given.

    An address in the project's environment is the project's own choice, and no effect of the checkpoint.
    """
    for model in _models_in(saved):
        provider = provider_of(model)
        if not any(environment.get(variable) for variable in address_names(provider)):
            yield Effect("host", provider, "the provider's own address")
        for name in KEYS.get(provider, (f"{provider.upper()}_API_KEY",)):
            if environment.get(name):
                yield Effect("key", name, provider)


def _models_in(saved: Mapping[str, Any]) -> Iterator[Any]:
    owners = _owners(saved)
    if isinstance(saved.get("manager_agent"), dict):
        owners.append(saved["manager_agent"])
    for owner in owners:
        for field in ("llm", "function_calling_llm", "manager_llm", "planning_llm"):
            model = owner.get(field)
            if (isinstance(model, str) and model) or (isinstance(model, dict) and model.get("model")):
                yield model


def _tools_in(saved: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for owner in _owners(saved):
        for tool in _dicts(owner.get("tools")):
            kind = str(tool.get("tool_type") or "")
            if kind and not kind.startswith(OWN_TOOLS) and kind not in MADE_OF_FUNCTIONS:
                yield tool


def _owners(saved: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tasks = _dicts(saved.get("tasks"))
    agents = [task["agent"] for task in tasks if isinstance(task.get("agent"), dict)]
    return [saved, *_dicts(saved.get("agents")), *tasks, *agents]


def _resolved(module: str) -> tuple[ModuleFile, ...]:
    try:
        return resolving.files_of(module)
    except Unresolved:
        return ()


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value or [] if isinstance(one, dict)] if isinstance(value, list) else []
