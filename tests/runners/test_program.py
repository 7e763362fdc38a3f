"""The program of a runner reports one end, whatever its project raises and whenever it is cancelled."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forkline_runner.reporting import Questions, Reporter, as_json, as_text, plain_text, short_texts
from tests.waiting import wait_until
from viewer.host.jobs import spool

RUNNERS = Path(__file__).resolve().parents[2] / "viewer/runners"
PROGRAM = """
import sys, time
from pathlib import Path
sys.path.insert(0, {runners!r})
from forkline_runner.findings import report_findings
from forkline_runner.program import EngineProgram, main
here = Path(sys.argv[1])
def flush():
    pass
{body}
main(EngineProgram(run, flush, ()))
"""
UNREADABLE = """
class Strange(Exception):
    def __str__(self):
        raise KeyError("no text")
"""
WITHOUT_REQUEST = """
class Strange(Exception):
    @property
    def request(self):
        raise RuntimeError("The .request property has not been set.")
"""
UNNAMED = """
class Code:
    def __repr__(self):
        raise KeyError("no text")
class Strange(SystemExit):
    def __init__(self):
        self.code = Code()
"""


def begun(folder: Path, body: str, kind: str = "run") -> "subprocess.Popen[bytes]":
    """Start a runner whose engine is this code."""
    (folder / spool.REQUEST).write_text(json.dumps({"kind": kind}))
    text = PROGRAM.format(runners=str(RUNNERS), body=body)
    environment = {**os.environ, "FORKLINE_PREFLIGHT": "-"}
    return subprocess.Popen(
        [sys.executable, "-c", text, str(folder)], env=environment, stderr=subprocess.PIPE
    )


def events(folder: Path) -> list[spool.SpoolEvent]:
    return spool.read_events(folder, 0)[0]


@pytest.mark.parametrize("program", sorted(RUNNERS.glob("*.py")), ids=lambda path: path.stem)
def test_a_process_of_the_project_imports_the_program_again_without_its_folder(program: Path) -> None:
    code = f"import runpy; runpy.run_path({str(program)!r}, run_name='__mp_main__')"
    again = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    "arguments", [("runner.py", ".", "forkline_langgraph.job"), ("saver_runner.py", "prune", "0")]
)
def test_no_variable_puts_other_modules_in_the_place_of_a_runners(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    for package in ("forkline_runner", "forkline_langgraph"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("open('imported', 'w')")
    program, *others = arguments
    variables = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(RUNNERS / program), *others]
    ended = subprocess.run(command, cwd=tmp_path, env=variables, stdin=subprocess.DEVNULL)
    assert ended.returncode != 0 and not (tmp_path / "imported").exists()


def test_the_code_of_a_project_gets_no_arguments(tmp_path: Path) -> None:
    body = "import argparse\ndef run(*_):\n    return repr(argparse.ArgumentParser().parse_args())"
    runner = begun(tmp_path, body)
    assert runner.communicate(timeout=60)[1] == b""
    assert [one["data"]["result"] for one in events(tmp_path)] == ["Namespace()"]


@pytest.mark.parametrize("error", [UNREADABLE, WITHOUT_REQUEST, UNNAMED])
def test_an_error_whose_own_code_fails_is_reported(tmp_path: Path, error: str) -> None:
    runner = begun(tmp_path, f"{error}\ndef run(*_):\n    raise Strange()")
    assert runner.communicate(timeout=60)[1] == b"" and runner.returncode == 1
    (end,) = events(tmp_path)
    assert (end["kind"], end["data"]["status"]) == ("ended", "failed")
    assert end["data"]["error"].startswith("Strange: ") and "Strange" in end["data"]["traceback"]


LONG_REFUSAL = """
from forkline_runner.reporting import Refused, message
texts = [message("plain_text", text="好" * 2000) for _ in range(200)]
def run(*_):
    raise Refused("crewai.project_crew_differs", entry_point="a:b", questions=texts)
"""
LONG_ENDS = {
    "result": ("def run(*_):\n    return '好 ' * 500_000", "succeeded"),
    "result without blanks": ("def run(*_):\n    return '{\"' + 'x' * 1_000_000", "succeeded"),
    "error": ("def run(*_):\n    raise ValueError('好 ' * 500_000)", "failed"),
    "message": (LONG_REFUSAL, "failed"),
}


@pytest.mark.parametrize("name", LONG_ENDS)
def test_an_end_with_long_texts_keeps_its_status_and_what_fits_of_them(tmp_path: Path, name: str) -> None:
    body, status = LONG_ENDS[name]
    runner = begun(tmp_path, body)
    assert runner.communicate(timeout=60)[1] == b""
    (end,) = events(tmp_path)
    assert end["data"]["status"] == status
    assert len(str(end["data"]["result" if status == "succeeded" else "error"])) > 1000


def test_an_end_with_long_texts_fits_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = spool.Spool(tmp_path, shorten=short_texts)

    def refuse(_kind: str, /, **_data: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(written, "write", refuse)
    error = plain_text("好 " * 5000)
    Reporter(written).end("failed", error=error, traceback="好 " * 5000)
    end = spool.reserved_event(tmp_path)
    assert end is not None and end["data"]["status"] == "failed" and "好" in str(end["data"]["error"])


def test_a_question_with_many_long_choices_keeps_its_number_and_whole_output(tmp_path: Path) -> None:
    reporter = Reporter(spool.Spool(tmp_path, shorten=short_texts))
    reporter.questions = questions = Questions(tmp_path, reporter, spool.answer_name)
    (tmp_path / spool.answer_name(1)).write_text('{"text": "1"}')
    choices, output = ["好" * 3000] * 60, "好" * 20_000
    assert questions.ask("interrupt", "好" * 6000, output=output, choices=choices) == "1"
    question = events(tmp_path)[0]["data"]
    assert question["number"] == 1 and question["context"]["output"] == output
    assert len(question["context"]["choices"]) == 50


def test_a_report_with_many_long_texts_has_all_its_findings(tmp_path: Path) -> None:
    body = (
        "choices = [(str(number), '好' * 160) for number in range(30)]\n"
        "def find(report):\n"
        "    report['questions'] += [{'saved': 'x' * 64, 'choices': choices} for _ in choices]\n"
        "def run(_, scratch, reporter):\n    return report_findings(reporter, scratch, find)"
    )
    runner = begun(tmp_path, body, "preflight")
    assert runner.communicate(timeout=60)[1] == b""
    questions = events(tmp_path)[0]["data"]["report"]["questions"]
    assert [(one["saved"], len(one["choices"])) for one in questions] == [("x" * 64, 30)] * 30


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("result", ["return 'done'", "raise ValueError('why')"])
def test_a_signal_after_the_run_leaves_its_last_checkpoint_time(
    tmp_path: Path, number: int, result: str
) -> None:
    body = (
        f"def run(*_):\n    {result}\n"
        "def flush():\n    (here / 'begun').touch()\n    time.sleep(1)\n    (here / 'written').touch()"
    )
    runner = begun(tmp_path, body)
    wait_until((tmp_path / "begun").exists)
    runner.send_signal(number)
    assert runner.communicate(timeout=60)[1] == b"" and (tmp_path / "written").exists()
    assert [one["kind"] for one in events(tmp_path)] == ["ended"]


@pytest.mark.parametrize("kind", ["preflight", "effects", "next"])
def test_a_check_of_any_kind_asks_no_questions(tmp_path: Path, kind: str) -> None:
    body = "def run(_, scratch, reporter):\n    report_findings(reporter, scratch, lambda _: input('?'))"
    runner = begun(tmp_path, body, kind)
    assert runner.communicate(timeout=60)[1] == b"" and runner.returncode == 1
    (end,) = events(tmp_path)
    assert end["data"]["error"]["code"] == "runner.input_during_preflight"


@pytest.mark.parametrize(
    "contact",
    [
        "socket.create_connection(('192.0.2.1', 80), 1)",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', 9))",
        "socket.gethostbyname('example.org')",
        "socket.gethostbyname_ex('example.org')",
        "socket.gethostbyaddr('192.0.2.1')",
        "socket.getnameinfo(('192.0.2.1', 80), 0)",
        "socket.getaddrinfo('example.org', 80)",
    ],
)
def test_a_check_contacts_no_host(tmp_path: Path, contact: str) -> None:
    body = (
        "import socket\ndef find(report):\n    left, right = socket.socketpair()\n    left.send(b'x')\n"
        f"    try:\n        {contact}\n"
        "    except OSError as error:\n        report['notes'].append(str(error))\n"
        "def run(_, scratch, reporter):\n    return report_findings(reporter, scratch, find)"
    )
    runner = begun(tmp_path, body, "preflight")
    assert runner.communicate(timeout=60)[1] == b"" and runner.returncode == 0
    (note,) = events(tmp_path)[0]["data"]["report"]["notes"]
    assert "A preflight check contacts no host" in note


class Fails:
    def __repr__(self) -> str:
        raise KeyError("no text")

    def model_dump(self, **_options: object) -> None:
        raise TypeError("no JSON")


def test_what_json_cannot_hold_is_a_text() -> None:
    deep: list[object] = []
    for _level in range(100_000):
        deep = [deep]
    found = [as_text(value) for value in ({(0, 1): 2}, deep, [Fails()], Fails())]
    assert found == ["{(0, 1): 2}", "<list>", "<list>", "<Fails>"]
    assert as_json({"a": {1}}, default=list) == '{"a": [1]}'
