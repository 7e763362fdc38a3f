"""Programs that end are restarted with a reason, and given up eventually."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from viewer.cli import supervision
from viewer.cli.supervision import GaveUp, Program


class Pipe:
    """Signals that the test sends itself."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)

    def fileno(self) -> int:
        return self._read

    def taken(self) -> set[int]:
        try:
            return set(os.read(self._read, 10))
        except BlockingIOError:
            return set()


@pytest.fixture
def lifeline() -> Iterator[int]:
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


def program(code: str) -> Program:
    return Program("worker", [sys.executable, "-c", code], Path.cwd(), dict(os.environ))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(supervision, "MAX_QUICK_ENDS", 4)


def test_a_program_that_keeps_exiting_is_given_up(quick: None, lifeline: int) -> None:
    said: list[str] = []
    failing = program("import sys; print('no disk'); sys.exit(3)")
    with pytest.raises(GaveUp, match="the worker ended 4 times, each within 60 s"):
        supervision.supervise([failing], Pipe(), lifeline, said.append)
    assert len(said) == 4
    assert said[0].startswith("The worker ended with exit status 3, 0 s after its start. Its last output:")
    assert "\n  no disk\n" in said[0]
    assert said[0].endswith("It starts again in 0.01 s.")
    assert said[1].endswith("It starts again in 0.02 s.")


def test_the_signal_is_named_and_missing_output_is_reported(quick: None, lifeline: int) -> None:
    said: list[str] = []
    killed = program("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(GaveUp):
        supervision.supervise([killed], Pipe(), lifeline, said.append)
    assert "was ended by SIGKILL" in said[0]
    assert "It printed nothing." in said[0]


def test_the_pause_grows_to_a_bound_and_shrinks_after_a_healthy_time(
    quick: None, monkeypatch: pytest.MonkeyPatch, lifeline: int
) -> None:
    monkeypatch.setattr(supervision, "MAX_QUICK_ENDS", 1000)
    one, pauses = program("pass"), []
    for _ in range(14):
        supervision.begin(one, lifeline)
        assert one.process
        one.process.wait()
        pauses.append(noted_pause(one))
    assert pauses[0] < 0.02 < pauses[3]
    assert 29 < pauses[-1] <= supervision.MAX_PAUSE_SECONDS
    supervision.begin(one, lifeline)
    assert one.process
    one.process.wait()
    one.began_at -= supervision.HEALTHY_SECONDS
    assert noted_pause(one) < 0.02


def noted_pause(one: Program) -> float:
    """Note the end of a program. Return the seconds until it starts again, however busy the machine is."""
    said: list[str] = []
    before = time.monotonic()
    supervision.note_end(one, said.append)
    pause = float(said[0].split()[-2])
    assert before + pause <= one.starts_at <= time.monotonic() + pause
    return pause


def test_a_signal_stops_all_programs_and_kills_those_that_ignore_it(
    monkeypatch: pytest.MonkeyPatch, lifeline: int
) -> None:
    monkeypatch.setattr(supervision, "STOP_SECONDS", 0.5)
    stubborn = program(
        "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(99)"
    )
    pipe = Pipe()
    supervision.begin(stubborn, lifeline)
    while not stubborn.last_lines:
        supervision.wait([stubborn], pipe, 1)
    os.write(pipe.write, b"\x0f")
    supervision.supervise([stubborn], pipe, lifeline, lambda text: None)
    supervision.stop_all([stubborn], pipe)
    assert stubborn.process
    assert stubborn.process.returncode == -9
