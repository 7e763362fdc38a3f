"""The engines whose checkpoints Forkline reads, each behind the protocol of viewer/engines/protocol.

An engine is a package with two modules, so that a reader process imports no more than it needs:

``engine``         its ``ENGINE``, an ``Engine``
``store_format``   its ``STORE_FORMAT``, a ``StoreFormat``
"""

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from viewer.engines.entry_points import RootKind
    from viewer.engines.protocol import Engine
    from viewer.stores.protocol import StoreFormat

# The package of each engine, by the name that a location records.
ENGINES: dict[str, str] = {"crewai": "viewer.engines.crewai", "langgraph": "viewer.engines.langgraph"}
# The engine of a location that records none.
DEFAULT = "crewai"


class UnknownEngine(LookupError):
    """No engine has this name."""


def engine_named(name: str) -> "Engine[Any]":
    """The engine of this name. Raises UnknownEngine."""
    engine: Engine[Any] = _member(name, "engine", "ENGINE")
    return engine


def engine_of(recorded: Any) -> "Engine[Any]":
    """The engine that a location or a checkpoint's contents record. Raises UnknownEngine."""
    return engine_named(engine_name(recorded))


def all_engines() -> "list[Engine[Any]]":
    """Every engine, in the order of the registry."""
    return [engine_named(name) for name in ENGINES]


def kinds_that(holds: "Callable[[RootKind], bool]") -> "list[RootKind]":
    """The root kinds of every engine for which ``holds`` returns True."""
    return [kind for engine in all_engines() for kind in engine.kinds.values() if holds(kind)]


def engine_with(kind: "RootKind") -> str:
    """The name of the engine that has this root kind; ``DEFAULT`` if none has it."""
    return next((one.name for one in all_engines() if one.kinds.get(kind.name) is kind), DEFAULT)


def unit_subjects() -> tuple[str, ...]:
    """What the runners of all engines call a unit in their events."""
    return _unit_subjects(tuple(ENGINES))


def unit_events(happened: str) -> tuple[str, ...]:
    """The names of the runners' events of units. ``happened`` is ``started``, ``completed`` or ``failed``."""
    return _unit_events(tuple(ENGINES), happened)


def event_label(kind: str) -> str:
    """The label of an event that an engine defines; empty if none does."""
    return _event_values(tuple(ENGINES), "event_labels").get(kind, "")


def event_detail(kind: str) -> str:
    """The name of the value that an expanded event shows, if an engine defines it; empty if none does."""
    return _event_values(tuple(ENGINES), "event_details").get(kind, "")


# Asked for each event of each job.
@lru_cache(maxsize=64)
def _event_values(engines: tuple[str, ...], name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for engine in reversed(engines):
        found |= getattr(engine_named(engine), name)
    return found


@lru_cache(maxsize=64)
def _unit_subjects(engines: tuple[str, ...]) -> tuple[str, ...]:
    found = (subject for name in engines for subject in engine_named(name).unit_subjects)
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=64)
def _unit_events(engines: tuple[str, ...], happened: str) -> tuple[str, ...]:
    return tuple(f"{subject}_{happened}" for subject in _unit_subjects(engines))


def engine_name(recorded: Any) -> str:
    """The name of the engine that a location or contents record; ``DEFAULT`` if they record none."""
    return getattr(recorded, "engine", "") or DEFAULT


def store_format_named(name: str) -> "StoreFormat":
    """The store format of the engine of this name. Raises UnknownEngine."""
    found: StoreFormat = _member(name, "store_format", "STORE_FORMAT")
    return found


def store_format_in(package: str) -> "StoreFormat":
    """The store format of an engine's package, for a reader process, which has no registry."""
    found: StoreFormat = _imported(package, "store_format", "STORE_FORMAT")
    return found


def packages(name: str = "") -> tuple[str, ...]:
    """The package of the engine of this name, or of every engine. Raises UnknownEngine."""
    if not name:
        return tuple(ENGINES.values())
    if name not in ENGINES:
        raise UnknownEngine(f"There is no engine {name!r}. There are: {', '.join(ENGINES)}.")
    return (ENGINES[name],)


def _member(name: str, module: str, member: str) -> Any:
    (package,) = packages(name)
    return _imported(package, module, member)


@lru_cache(maxsize=64)
def _imported(package: str, module: str, member: str) -> Any:
    return getattr(import_module(f"{package}.{module}"), member)
