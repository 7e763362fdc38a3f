"""Output that cannot be written ends a command with one line, or none, and never with a traceback."""

import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.environments import environment_with
from tests.real_stores import copy_of
from tests.terminal import without_progress
from viewer.cli import as_json
from viewer.cli.running import event_line
from viewer.management import MAX_PART, ForklineCommand, OutputFailed
from viewer.management.commands.checkpoints import Command

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def environment(empty_data_folder: Path, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a command with its own data folder."""
    shutil.copytree(empty_data_folder, tmp_path / "data")
    return environment_with(tmp_path / "data")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_device_is_one_line(tmp_path: Path, environment: dict[str, str], form: list[str]) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    command = [sys.executable, "manage.py", "checkpoints", "list", str(store), *form]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=full, stderr=subprocess.PIPE)
    text = "CommandError: The output could not be written: No space left on device.\n"
    assert (ended.returncode, without_progress(ended.stderr.decode())) == (1, text)


FORKLINE = [sys.executable, "-c", "from checkpoint_site.command import main; main()"]


@pytest.mark.parametrize("arguments", [["list", "STORE"], ["--help"], ["list", "--help"], ["--version"]])
def test_a_closed_pipe_is_not_reported_as_an_error(
    tmp_path: Path, environment: dict[str, str], arguments: list[str]
) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    command = [*FORKLINE, *(one.replace("STORE", str(store)) for one in arguments)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    printed = without_progress(process.stderr.read().decode())
    # As the shell reports a program that SIGPIPE has ended.
    assert (process.wait(), printed) == (141, "")


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "gone").mkdir()
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *FORKLINE]
    own = {**environment, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path / "gone", env=own, capture_output=True, text=True)
    assert ended.returncode == 1 and "No such file or directory" in ended.stderr, ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_version_is_that_of_forkline(environment: dict[str, str]) -> None:
    command = [*FORKLINE, "--version"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == f"{settings.VERSION}\n"


def test_choices_are_named_as_they_are_typed() -> None:
    actions = Command().create_parser("forkline", "")._actions
    (subparsers,) = (one.choices for one in actions if isinstance(one.choices, dict))
    for name, subparser in subparsers.items():
        found = [choice for action in subparser._actions for choice in action.choices or ()]
        # An error shows the representations of choices, which name a member of an enumeration by its class.
        assert {type(choice) for choice in found} <= {str, int}, name


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_long_import_says_what_it_does_and_can_be_ended(
    environment: dict[str, str], number: signal.Signals, status: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # A server that accepts the connection, and never answers.
        port = silent.getsockname()[1]
        environment["POSTGRESQL_LOCATIONS"] = f"silent=host=127.0.0.1 port={port} user=reader dbname=threads"
        command = [sys.executable, "manage.py", "import_checkpoints", "postgresql:silent"]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr
            assert process.stderr.readline() == "Reading postgresql:silent …\n"
            process.send_signal(number)
            last = [line for line in process.stderr if line != "Reading postgresql:silent …\n"]
    assert process.returncode == status
    assert last == (["CommandError: Interrupted.\n"] if number == signal.SIGINT else [])
    with closing(sqlite3.connect(Path(environment["DATA_DIR"]) / "forkline.sqlite3")) as database:
        assert database.execute("SELECT count(*) FROM viewer_location").fetchone() == (0,)


class Terminal(StringIO):
    """A standard output that is closed after this many writes, if any."""

    def __init__(self, writes: int | None = None) -> None:
        super().__init__()
        self.writes = writes

    def write(self, text: str) -> int:
        if self.writes is not None:
            if self.writes == 0:
                raise BrokenPipeError(32, "Broken pipe")
            self.writes -= 1
        return super().write(text)


def test_lines_are_printed_before_the_last_one_is_known() -> None:
    terminal, printed = Terminal(), list[int]()

    def lines() -> Iterator[str]:
        for number in range(10 * MAX_PART):
            printed.append(terminal.getvalue().count("\n"))
            yield f"{number}\nnot a second line"

    ForklineCommand(stdout=terminal).say(lines())
    assert printed[MAX_PART - 1 : MAX_PART + 1] == [0, MAX_PART]
    assert max(number - count for number, count in enumerate(printed)) <= MAX_PART
    assert terminal.getvalue().count("\n") == 10 * MAX_PART


def test_a_line_that_is_known_is_not_held_back_by_one_that_takes_long() -> None:
    terminal = Terminal()

    def lines() -> Iterator[str]:
        yield "first"
        while "first" not in terminal.getvalue():
            yield "next"

    ForklineCommand(stdout=terminal).say(lines())
    assert terminal.getvalue().startswith("first\n")


@pytest.mark.parametrize("form", ["say", "say_json"])
def test_rows_are_read_no_further_once_the_pipe_is_closed(form: str) -> None:
    known = list[int]()

    def rows() -> Iterator[str]:
        for number in range(100 * MAX_PART):
            known.append(number)
            yield str(number)

    command = ForklineCommand(stdout=Terminal(writes=1))
    with pytest.raises(OutputFailed):
        command.say(rows()) if form == "say" else command.say_json({"rows": rows()})
    assert len(known) <= 2 * MAX_PART


@pytest.mark.parametrize("rows", [[], [1], [1, {"a": [None, True]}, "\x1b[0m\u2028"]])
def test_a_document_of_iterators_is_the_json_of_its_lists(rows: list[Any]) -> None:
    document = {"a b": 1, "rows": iter(rows), "in\n": {"more": iter(rows), "text": "é"}, "none": iter(())}
    lists = {"a b": 1, "rows": rows, "in\n": {"more": rows, "text": "é"}, "none": []}
    assert as_json(document) == as_json(lists)
    assert json.loads(as_json(lists)) == lists


def test_a_line_of_an_event_names_the_zone_of_its_clock() -> None:
    line = event_line("main", {"at": "2026-03-14T09:26:53.589+00:00", "text": "Started"})
    assert line == "09:26:53 UTC  main  Started"
