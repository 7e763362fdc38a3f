"""Calls every command with hostile values for each of its arguments, and with hostile settings.

The arguments are those of the parsers themselves, so one that is added later is tested as well. Each call is
a process of its own. Passes if each call ends in time, without a traceback or a control character in what it
prints; a refused one with one short line; a value that its argument cannot have is refused; and a call that
is refused changes nothing.
"""

import hashlib
import os
import re
import shutil
import signal
import sqlite3
import sys
import time
from argparse import Action, ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder

MAX_SECONDS = 20.0
# What a refused call prints: lines on stderr and on stdout, and characters altogether.
MAX_LINES, MAX_CHARACTERS = 12, 8_000
STORE = ROOT / "tests/recorded_stores/1.15.30/json"
CHECKPOINT = "20261120T232826_35ce9d75"
# Columns that also a call without changes writes.
TIMES = {"imported_at", "last_login"}
TEXTS = {
    "a large number": "9" * 40,
    "more digits than Python converts": "9" * 5_000,
    "a negative number": "-1",
    "not a number": "nan",
    "infinity": "inf",
    "a number beyond floating point": "1e999",
    "a fraction": "0.5",
    "nothing": "",
    "spaces": "   ",
    "control characters": "x\n\x1b[2Jy\x07",
    "100,000 characters": "x" * 100_000,
    "not UTF-8": b"caf\xe9".decode(errors="surrogateescape"),
    "open brackets": "[" * 50_000,
    "a word": "yesterday",
}
# The hostile texts that arguments of a kind may have. Of other kinds, all have to be refused.
PLAIN = {"a large number", "a negative number", "not a number", "infinity", "a number beyond floating point"}
PLAIN |= {"a fraction", "a word"}
WORDS = PLAIN | {"a missing path", "/dev/zero", "/dev/full", "a pipe", "a directory"}
ACCEPTED: Mapping[str, set[str]] = {
    "text": {*TEXTS, *WORDS} - {"not UTF-8"},
    "pair": {"a directory"},
    "location": {"a directory"},
    "target": {*PLAIN, "a directory", "a missing path", "control characters"},
    "folder": {"a directory"},
    "new file": {*PLAIN, "a missing path", "control characters", "not UTF-8"},
    "decimal": {"a fraction"},
}


class Case(NamedTuple):
    """One call: its arguments, what is hostile about it, and whether it has to be refused."""

    arguments: tuple[str, ...]
    name: str
    is_refused: bool
    variables: Mapping[str, str] = {}


@dataclass
class Found:
    """The number of calls, how many were refused, and what was wrong with others."""

    calls: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)


def main() -> int:
    """Print a table. Return 1 if a call failed, else 0."""
    with temporary_data_folder() as folder:
        found = {"arguments": tried(folder, 1), "settings": tried_settings(folder, 1)}
    print_heading("hostile values of", "calls", "refused", "slowest", "faults")
    for name, one in found.items():
        print_row(name, one.calls, one.refused, f"{one.slowest:.1f} s", len(one.faults))
    for one in found.values():
        print("\n".join(one.faults[:50]))
    return int(any(one.faults or not one.calls for one in found.values()))


def tried(folder: Path, every: int) -> Found:
    """Call the commands with every n-th hostile value of each argument."""
    workplace = Workplace.made(folder)
    found = Found()
    for number, case in enumerate(cases(workplace)):
        if number % every == 0:
            check(case, workplace, found)
    return found


def tried_settings(folder: Path, every: int) -> Found:
    """Call a command with every n-th hostile value of each setting."""
    workplace = Workplace.made(folder)
    found = Found()
    for number, case in enumerate(setting_cases(workplace)):
        if number % every == 0:
            check(case, workplace, found)
    return found


@dataclass(frozen=True)
class Workplace:
    """A location, the folder in which calls run, the data folder, and paths that are no readable files."""

    location: Path
    folder: Path
    data: Path
    paths: Mapping[str, str]

    @classmethod
    def made(cls, folder: Path) -> "Workplace":
        """Create what the calls need below a folder, and import the location. Needs Django to be set up."""
        from django.conf import settings
        from django.db import connections

        from viewer.host.locations.adding import open_location
        from viewer.host.locations.completing import describe_runs
        from viewer.host.locations.importing import import_location

        place = folder / "calls"
        if not place.exists():
            (place / "directory").mkdir(parents=True)
            shutil.copytree(STORE, place / "store")
            os.mkfifo(place / "pipe")
            location = open_location(place / "store")
            import_location(location)
            # Otherwise, the first command that shows the runs would do it, also if it is refused then.
            describe_runs(location)
        # A child has connections of its own.
        connections.close_all()
        paths = {
            "a missing path": str(place / "missing"),
            "/dev/zero": "/dev/zero",
            "/dev/full": "/dev/full",
            "a pipe": str(place / "pipe"),
            "a directory": str(place / "directory"),
        }
        return cls(place / "store", place, Path(settings.DATA_DIR), paths)

    def remove_written(self) -> None:
        """Remove the files that a call has written: to a later one, a missing path would be there."""
        for path in self.folder.iterdir():
            if path.name not in ("store", "directory", "pipe"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def state(self) -> dict[str, str]:
        """Digests of the folder's files, and of the rows of each table without the times of imports."""
        files = "".join(f"{path}{path.lstat().st_size}" for path in sorted(self.folder.rglob("*")))
        found = {"files": digest_of(files)}
        file = self.data / "forkline.sqlite3"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%' ORDER BY name"
            )
            for name in [name for (name,) in tables]:
                columns = [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
                chosen = ", ".join(f'"{one}"' for one in columns if one not in TIMES)
                found[name] = digest_of(repr(list(database.execute(f'SELECT {chosen} FROM "{name}"'))))
        return found


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def parsers() -> Iterator[tuple[tuple[str, ...], ArgumentParser]]:
    """Each command with its parser."""
    from django.core.management import load_command_class

    from checkpoint_site.command import COMMANDS
    from viewer.cli import SUBCOMMANDS, LineParser

    for name, command in COMMANDS.items():
        yield (name,), load_command_class("viewer", command).create_parser("forkline", command)
    for name in SUBCOMMANDS:
        parser = LineParser(prog=name)
        SUBCOMMANDS[name].add_arguments(parser)
        yield (name,), parser


def untyped() -> list[str]:
    """The arguments that take a value of no declared type, which no case can be made for."""
    from viewer.validation import OptionType

    return [
        f"{' '.join(command)} {action.dest}"
        for command, parser in parsers()
        for action in valued(parser)
        if action.choices is None and not isinstance(action.type, OptionType)
    ]


def valued(parser: ArgumentParser) -> list[Action]:
    """The parser's arguments that take a value, without those of every command of Django."""
    from django.core.management.base import DjangoHelpFormatter

    hidden = {"-h", *DjangoHelpFormatter.show_last}
    return [
        action for action in parser._actions if action.nargs != 0 and not hidden & set(action.option_strings)
    ]


def kind_of(action: Action) -> str:
    return "choice" if action.choices is not None else str(getattr(action.type, "kind", "text"))


def cases(workplace: Workplace) -> Iterator[Case]:
    """Calls of each command, each with one hostile value and otherwise valid ones."""
    for command, parser in parsers():
        actions = valued(parser)
        # A plan starts nothing.
        plan = ["--plan"] if any("--plan" in one.option_strings for one in parser._actions) else []
        for action in actions:
            kind = kind_of(action)
            others = [valid(one, workplace) for one in actions if one.required and one is not action]
            if action.option_strings:
                others = [valid(one, workplace) for one in actions if one.required]
            for name, value, is_refused in hostile(action, kind, workplace):
                if command == ("up",) and not is_refused:
                    # It would serve.
                    continue
                text = [f"{action.option_strings[-1]}={value}"] if action.option_strings else [value]
                if not action.option_strings and value.startswith("-"):
                    text = ["--", value]
                arguments = (*command, *plan, *placed(action, actions, text, others))
                yield Case(arguments, f"{' '.join(command)} {action.dest} ({kind}): {name}", is_refused)


def placed(action: Action, actions: Sequence[Action], text: list[str], others: list[str]) -> list[str]:
    """The arguments in the order of the parser."""
    if action.option_strings:
        return [*text, *others]
    before = sum(one.required and not one.option_strings for one in actions[: actions.index(action)])
    return [*others[:before], *text, *others[before:]]


def hostile(action: Action, kind: str, workplace: Workplace) -> Iterator[tuple[str, str, bool]]:
    """The hostile values of an argument, each with whether it has to be refused."""
    accepted = ACCEPTED.get(kind, set())
    form = str(action.metavar or "")
    for name, value in {**TEXTS, **workplace.paths}.items():
        # A worker with a name that it may have does not end.
        if kind != "host" or not re.fullmatch(r"\w[\w.-]{0,99}", value):
            yield name, value, name not in accepted
    for name, value in workplace.paths.items():
        if "@FILE" in form:
            yield f"@{name}", f"1=@{value}" if kind == "pair" else f"@{value}", True
    if kind == "pair":
        for name, value in TEXTS.items():
            # What the value has to be depends on the checkpoint.
            yield f"NAME={name}", f"1={value}", name == "not UTF-8"
            yield f"{name}=VALUE", f"{value}=1", name in {"not UTF-8", "nothing", "control characters"}
    if kind in ("checkpoint", "location"):
        for name, value in {**TEXTS, **workplace.paths}.items():
            yield f"LOCATION#{name}", f"{workplace.location}#{value}", name != "nothing" or kind != "location"


def valid(action: Action, workplace: Workplace) -> str:
    """A value that this argument may have."""
    kinds = {
        "checkpoint": f"{workplace.location}#{CHECKPOINT}",
        "location": str(workplace.location),
        "target": str(workplace.location),
        "new file": "-",
        "file": str(workplace.location / "missing"),
        "job": "0000",
        "number": "1",
    }
    return kinds.get(kind_of(action), "module:function")


def setting_cases(workplace: Workplace) -> Iterator[Case]:
    """Calls of one command, each with one hostile setting."""
    from checkpoint_site.environment import SETTINGS

    accepted = {
        "text": {*PLAIN, *workplace.paths, "more digits than Python converts", "spaces"},
        "folders": {"a missing path", *workplace.paths},
        "file": {"a missing path"},
        "folder": set[str](),
        "databases": {"spaces"},
        "teams": {"spaces"},
        "token": {"a large number", "a missing path", "a pipe", "a directory"},
    }
    for setting in SETTINGS:
        for name, value in {**TEXTS, **workplace.paths}.items():
            if name == "nothing" or (setting.kind == "folder" and name not in workplace.paths):
                # An empty variable is an unset one; a data folder may have any name.
                continue
            if setting.kind == "folder" and name in ("a missing path", "a directory"):
                continue
            is_refused = name not in accepted.get(setting.kind, set())
            arguments = ("list", str(workplace.folder / "missing"))
            case = Case(
                arguments, f"{setting.name} ({setting.kind}): {name}", is_refused, {setting.name: value}
            )
            yield case


def check(case: Case, workplace: Workplace, found: Found) -> None:
    """Make the call, and add what is wrong with it to ``found``."""
    before = workplace.state()
    began = time.monotonic()
    status, out, err = called(case, workplace.folder)
    passed = time.monotonic() - began
    found.calls += 1
    found.refused += status != 0
    found.slowest = max(found.slowest, passed)
    found.faults += (f"{case.name}: {fault}" for fault in faults(case, status, out, err, passed))
    if status != 0 and (changed := workplace.state().items() ^ before.items()):
        names = ", ".join(sorted({name for name, _digest in changed}))
        found.faults.append(f"{case.name}: a refused call has changed {names}")
    if status == 0:
        workplace.remove_written()


def faults(case: Case, status: int, out: str, err: str, passed: float) -> Iterator[str]:
    """What is wrong with the outcome of a call."""
    if status < 0 or passed > MAX_SECONDS:
        yield f"ended by signal {-status} after {passed:.0f} s"
        return
    if "Traceback" in out + err:
        yield f"a traceback: {err[-200:]!r}"
    if any(sign in out + err for sign in "\x1b\x07\r"):
        yield "control characters in its output"
    if "Unexpected error" in out + err:
        yield f"an error that nobody expected: {(out + err)[-200:]!r}"
    if case.is_refused and status == 0:
        yield f"was not refused: {out[:100]!r}"
    if case.variables and case.is_refused and not err.startswith(tuple(case.variables)):
        yield f"does not name the setting: {err[:100]!r}"
    if status != 0:
        lines = err.splitlines()
        if len(lines) > 1 or len(out.splitlines()) > MAX_LINES or not (lines or out):
            yield f"{len(lines)} lines on stderr, {len(out.splitlines())} on stdout: {(err or out)[:200]!r}"
        if len(out) + len(err) > MAX_CHARACTERS:
            yield f"{len(out) + len(err)} characters"


def called(case: Case, folder: Path) -> tuple[int, str, str]:
    """The exit status of a call, negative for a signal, and what it printed."""
    out, err = (os.memfd_create(name) for name in ("out", "err"))
    child = os.fork()
    if not child:
        run_child(case, folder, out, err)
    end = time.monotonic() + MAX_SECONDS
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.002)
    texts = []
    for descriptor in (out, err):
        os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(descriptor, "rb") as file:
            texts.append(file.read().decode(errors="replace"))
    return os.waitstatus_to_exitcode(ended[1]), texts[0], texts[1]


def run_child(case: Case, folder: Path, out: int, err: int) -> None:
    """Run the command in this process, which ends with its status."""
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        os.environ["FORKLINE_WARNED_OF_ROOT"] = "1"
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, out, err)):
            os.dup2(descriptor, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", errors="backslashreplace") for number in (1, 2))
        sys.argv = ["forkline", *case.arguments]
        if case.variables:
            os.execve(
                sys.executable,
                [sys.executable, "-c", "from checkpoint_site.command import main; main()", *case.arguments],
                {**os.environ, **case.variables, "PYTHONPATH": str(ROOT)},
            )
        from checkpoint_site.command import main as command

        command()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException as error:
        sys.stderr.write(f"Traceback of {error!r}")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
