"""Tries every public name of LangGraph and LangChain's core as what a stored value names.

    <an interpreter with LangGraph> engine_classes_program.py <folder> [all]

Builds each value that needs no consent, with paths, hosts and commands as its arguments, and records whatever
touches the disk, the network or a process. Prints one JSON object. It runs in the project's interpreter. With
``all``, every name is tried in every form, and every class is built with nested arguments too.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

# Read once, when the engine is imported.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer/runners"))

import ormsgpack

from forkline_langgraph import checkpoints, effects, savers

PACKAGES = ("langchain_core", "langgraph")
METHODS = ("construct", "model_construct", "model_validate_json", "parse_file", "from_file", "__init__")
# Arguments by name, besides those that a class declares.
NAMES = ("path", "filename", "mode", "host", "url", "command", "content", "data", "file", "value", "text")
# Events of ``sys.addaudithook`` that reach outside the process. What reads a path is "open".
TOUCHES = (
    *("open", "os.", "shutil.", "socket.", "subprocess.", "pty.", "ctypes.", "sqlite3.", "urllib.", "http."),
    *("ftplib.", "smtplib.", "imaplib.", "poplib.", "telnetlib.", "webbrowser.", "tempfile.", "glob."),
)
CONTROL = ("langchain_core.callbacks.file", "FileCallbackHandler")


def main() -> None:
    """Print what was tried, accepted, built and touched."""
    warnings.simplefilter("ignore")
    logging.disable()
    folder, is_thorough = Path(sys.argv[1]), "all" in sys.argv[2:]
    kept = folder / "kept"
    kept.write_text("kept")
    texts = (str(kept), str(folder / "new"), "http://127.0.0.1:9/x", "127.0.0.1", f"touch {folder / 'ran'}")
    watch, names = Watch(), list(public_names())
    tried, accepted = accepted_of({*names, *effects.DATA_CLASSES, effects.ZONE}, str(kept), is_thorough)
    built = build_all(accepted, texts, watch, is_thorough)
    touched = list(watch.events)
    watch.events.clear()
    with watch:
        control = control_effects(folder / "control")
    found = {
        "modules": len({module for module, _ in names}),
        "names": len(names),
        "tried": tried,
        "accepted": sorted(".".join(one) for one in accepted),
        "built": built,
        "touched": touched,
        "changed": sorted({path.name for path in folder.iterdir()} - {"kept", "control"}),
        "kept": kept.read_text(),
        "control": {"effects": control, "events": sorted({event for event, _ in watch.events})},
    }
    print(json.dumps(found))


def accepted_of(
    names: set[tuple[str, str]], text: str, is_thorough: bool
) -> tuple[int, set[tuple[str, str]]]:
    """Return the number of values that were tried, and the names that need no consent in one of them."""
    tried, accepted = 0, set()
    for module, name in names:
        for kind, data in islice(values(module, name, ["path"], text), 0, None, 1 if is_thorough else 7):
            tried += 1
            if is_accepted(kind, data):
                accepted.add((module, name))
    return tried, accepted


def build_all(accepted: set[tuple[str, str]], texts: tuple[str, ...], watch: Watch, is_thorough: bool) -> int:
    """Build each accepted class with each text as each argument, watched. Return the number of values."""
    serde, built = savers.serializer(LOADABLE), 0
    # Classes that this version of Python or of the engine lacks cannot be built.
    for module, name in sorted(one for one in accepted if exists(*one)):
        # Building one imports what the engine imports when it is first used.
        for kind, data in values(module, name, ["content"], "x"):
            if is_accepted(kind, data):
                load(serde, kind, data)
        arguments = arguments_of(module, name)
        for text in texts:
            path = ormsgpack.Ext(1, packed(["pathlib", "Path", [text]]))
            for value in (text, path, [text], {text: text})[: 4 if is_thorough else 1]:
                for kind, data in values(module, name, arguments, value):
                    if is_accepted(kind, data):
                        with watch:
                            load(serde, kind, data)
                        built += 1
    return built


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each public class and function of each module, under every name by which it can be imported."""
    for package in PACKAGES:
        for folder in importlib.import_module(package).__path__:
            for file in sorted(Path(folder).rglob("*.py")):
                parts = file.relative_to(Path(folder).parent).with_suffix("").parts
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                try:
                    found = importlib.import_module(module)
                except BaseException:
                    # It needs a package that is not installed.
                    continue
                public = [name for name in dir(found) if name[0] != "_" and callable(getattr(found, name))]
                yield from ((module, name) for name in public)
                # What an object of the project could be called through.
                for name, one in vars(found).items():
                    if inspect.isclass(one) and one.__module__ == module:
                        yield from ((module, f"{name}.{inner}") for inner in vars(one) if inner[:1] != "_")


def values(module: str, name: str, arguments: list[str], value: Any) -> Iterator[tuple[str, bytes]]:
    """Yield a stored value for each way to call this name, with the value as each argument."""
    given = dict.fromkeys(arguments or ["path"], value)
    yield from (("msgpack", packed(ext)) for ext in extensions(module, name, given, value))
    if not isinstance(value, ormsgpack.Ext):
        for lc in (1, 2):
            for form in ({"kwargs": given}, {"args": [value]}, {"args": [value, value]}):
                envelope = {"lc": lc, "type": "constructor", "id": [*module.split("."), name], **form}
                yield "json", json.dumps({"nested": [envelope]}).encode()
                yield "json", json.dumps(envelope | {"method": "from_file"}).encode()


def extensions(module: str, name: str, given: dict[str, Any], value: Any) -> Iterator[Any]:
    yield ormsgpack.Ext(0, packed([module, name, value]))
    for count in range(1, 5):
        yield ormsgpack.Ext(1, packed([module, name, [value] * count]))
    for code in (2, 4, 5):
        yield ormsgpack.Ext(code, packed([module, name, given]))
    for argument, one in given.items():
        yield ormsgpack.Ext(2, packed([module, name, {argument: one}]))
    for method in METHODS:
        yield ormsgpack.Ext(3, packed([module, name, value, method]))
    for code in (4, 5):
        yield ormsgpack.Ext(code, packed([module, name, given, "from_file"]))
    # Nested in plain values, in another object, and in a snapshot.
    inner = ormsgpack.Ext(2, packed([module, name, given]))
    yield {"deep": [{"er": [inner]}]}
    yield ormsgpack.Ext(5, packed(["langchain_core.messages.human", "HumanMessage", {"content": [inner]}]))
    yield ormsgpack.Ext(7, packed([inner]))


def packed(value: Any) -> bytes:
    return bytes(ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS))


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


def arguments_of(module: str, name: str) -> list[str]:
    """Return the names of the arguments that a class declares, and others."""
    called = getattr(importlib.import_module(module), name)
    try:
        declared = list(inspect.signature(called).parameters)
    except (TypeError, ValueError):
        declared = []
    fields = [*getattr(called, "model_fields", ()), *getattr(called, "__dataclass_fields__", ())]
    return list(dict.fromkeys([*declared, *fields, *NAMES]))


def loadable() -> effects.Loadable:
    return effects.Loadable({"entry_point": "", "entry_points": [], "accepted_effects": []})  # type: ignore[typeddict-item]


LOADABLE = loadable()


def is_accepted(kind: str, data: bytes) -> bool:
    """Return whether this value needs no consent."""
    return not LOADABLE.effects_in([checkpoints.LoadedValue(kind, data, "x")])


def load(serde: Any, kind: str, data: bytes) -> None:
    """Load a value as a run does. What the engine cannot build is an error, or another value."""
    with suppress(Exception):
        serde.loads_typed((kind, data))


def control_effects(path: Path) -> list[str]:
    """Build a class that opens its file, which the watch must notice. Return the effects that it has."""
    data = packed(ormsgpack.Ext(1, packed([*CONTROL, [str(path), "w"]])))
    found = LOADABLE.effects_in([checkpoints.LoadedValue("msgpack", data, "x")])
    getattr(importlib.import_module(CONTROL[0]), CONTROL[1])(str(path), "w")
    return [f"{one.kind} {one.name}" for one in found]


class Watch:
    """Records audit events while it is entered. An audit hook can never be removed."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._is_on = False
        sys.addaudithook(self._hear)

    def __enter__(self) -> None:
        self._is_on = True

    def __exit__(self, *_: object) -> None:
        self._is_on = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_on and event.startswith(TOUCHES):
            self.events.append((event, repr(arguments)[:200]))


if __name__ == "__main__":
    main()
