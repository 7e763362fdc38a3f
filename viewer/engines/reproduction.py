"""A job, and the lines that the Python scripts of all engines share to repeat it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pprint import pformat
from typing import Any

from viewer.messages.message import UserFacingError


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A job without its secrets. ``source`` is the checkpoint as the engine reads it; empty for a new run.

    ``outputs`` are texts or JSON values by unit, ``again`` the units that ran again, ``missing`` the names of
    values that are not stored, since they may be secrets. With ``starts_over``, a flow began again with its
    state.
    """

    kind: str
    entity: str
    folder: str
    entry_point: str
    location: str
    store_kind: str
    source: str = ""
    run_key: str = ""
    checkpoint_id: str = ""
    branch: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    starts_over: bool = False
    answers: Mapping[str, Any] = field(default_factory=dict)
    # Values of the run's config and context, by ``configurable`` and ``context``.
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    as_node: str = ""
    replace: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class NotReproducible(UserFacingError):
    """A run that no test can repeat."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a run was given, as its engine's runner reads it, and its values in the end, by name."""

    inputs: Any
    expected: Mapping[str, Any]


def literal(value: Any) -> str:
    """The value as Python source on one or several lines."""
    return pformat(value, width=96, sort_dicts=False)


def heading(what: Reproduction, title: str) -> list[str]:
    """The first lines of a script: what it does, what is missing, and the import path of the project."""
    lines = [f'"""{title}"""', ""]
    if what.missing:
        names = ", ".join(name.encode("unicode_escape").decode() for name in what.missing)
        lines += [f"# Not stored, since they may be secrets. Add them below: {names}", ""]
    return [
        *lines,
        "import os",
        "import sys",
        "",
        "# Set the environment variables of the project before: its keys are not part of this script.",
        f"os.chdir({what.folder!r})",
        f"sys.path[:0] = [{what.folder!r}, {what.folder + '/src'!r}]",
        "",
    ]


def loaded(entry_point: str, name: str) -> list[str]:
    """The lines of source that import the entry point, written as ``module:attribute``, as ``name``."""
    module, _colon, attribute = entry_point.partition(":")
    return ["import importlib", "", f"{name} = importlib.import_module({module!r}).{attribute}"]
