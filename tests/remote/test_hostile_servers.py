"""What a server that answers wrongly, slowly or not at all does to ``forkline --server``."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management.base import CommandError

from viewer.cli import Output, remote
from viewer.cli.remote import run_there
from viewer.cli.running import question_text

Serve = Callable[..., str]


@pytest.fixture
def serve(settings: LazySettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts a server with one answer, and returns its address."""
    settings.FORKLINE_TOKEN = "fkl_" + "a" * 43
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "PAUSES", (0.01, 0.02))
    listeners = list[socket.socket]()

    def started(answer: bytes, *, drips: bool = False) -> str:
        listeners.append(listener := socket.create_server(("127.0.0.1", 0)))

        def respond() -> None:
            with suppress(OSError):
                while True:
                    client, _address = listener.accept()
                    threading.Thread(target=speak, args=(client,), daemon=True).start()

        def speak(client: socket.socket) -> None:
            with suppress(OSError), client:
                client.recv(65536)
                client.sendall(answer)
                while drips:
                    client.sendall(b" ")
                    time.sleep(0.05)

        threading.Thread(target=respond, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield started
    for listener in listeners:
        listener.close()


def answer_of(document: Any, status: str = "200 OK", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", "Connection: close", *headers, "", ""]
    return "\r\n".join(head).encode() + json.dumps(document).encode()


def export(address: str, *more: str) -> Output:
    arguments = ["x#y", *more]
    options = {"format": more[-1] if more else "html", "output": None}
    return run_there(address, "export", arguments, options)


@pytest.mark.parametrize(
    ("claimed", "format", "written"),
    [
        ("conftest.py", "html", "conftest.py.html"),
        ("Makefile", "json", "Makefile.json"),
        ("../../.bashrc", "markdown", "bashrc.md"),
        ("-rf", "dot", "rf.dot"),
        ("sitecustomize.py", "pytest", "test_sitecustomize.py"),
        ("test_News-1.py", "pytest", "test_News-1.py"),
        ("News-1.otlp.jsonl", "otlp", "News-1.otlp.jsonl"),
        ("\x1b[2K\n", "svg", "2K.svg"),
        ("", "html", "run.html"),
    ],
)
def test_a_server_chooses_no_kind_of_file(
    serve: Serve, tmp_path: Path, claimed: str, format: str, written: str
) -> None:
    found = {"status": 0, "file": "x", "file_name": claimed}
    export(serve(answer_of(found, "200 OK", "Forkline-Version: 1")), "--format", format)
    assert [one.name for one in tmp_path.iterdir()] == [written]


@pytest.mark.parametrize("command", ["collection", "list"])
def test_a_server_writes_no_file_that_was_not_asked_for(serve: Serve, tmp_path: Path, command: str) -> None:
    found = {"status": 0, "file": "x", "file_name": "x.html", "lines": ["x"]}
    address = serve(answer_of(found, "200 OK", "Forkline-Version: 1"))
    output = run_there(address, command, ["tea"], {"export": None})
    assert (list(output.lines), list(tmp_path.iterdir())) == (["x"], [])


@pytest.mark.parametrize("ending", ["Connection: close", "Content-Length: 100000", "X: y"])
def test_an_answer_that_drips_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(remote, "TOTAL_SECONDS", 0.5)
    began = time.monotonic()
    address = serve(f"HTTP/1.1 200 OK\r\n{ending}\r\nForkline-Version: 1\r\n\r\n".encode(), drips=True)
    with pytest.raises(CommandError):
        run_there(address, "note", ["x#y", "--star"], {})
    assert time.monotonic() - began < 10


def test_endless_headers_are_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "TOTAL_SECONDS", 0.5)
    address = serve(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX: ", drips=True)
    with pytest.raises(CommandError):
        run_there(address, "note", ["x#y", "--star"], {})


@pytest.mark.parametrize(
    ("command", "is_unknown"),
    [("fork", True), ("score", True), ("cancel", True), ("list", False), ("export", False)],
)
def test_what_may_have_been_done_is_said(serve: Serve, command: str, is_unknown: bool) -> None:
    arguments = ["x#y", "m:f"] if command == "score" else ["x#y"]
    gateway = answer_of({"error": "upstream timed out"}, "504 Gateway Timeout")
    for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", gateway):
        with pytest.raises(CommandError) as failed:
            run_there(serve(answer), command, arguments, {})
        assert ("It may have been done" in str(failed.value)) is is_unknown, failed.value
        assert "No answer from" in str(failed.value)


def test_ctrl_c_during_a_start_says_that_it_may_have_started(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: Any, **_more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(remote, "sent", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_there(serve(b""), "fork", ["x#y"], {})
    assert "It may have been done" in capsys.readouterr().err


def test_a_refusal_without_a_version_names_none(serve: Serve) -> None:
    text = "This token does not have the role for that."
    with pytest.raises(CommandError) as failed:
        run_there(serve(answer_of({"error": text}, "403 Forbidden")), "note", ["x#y"], {})
    assert str(failed.value) == text


@pytest.mark.parametrize("number", [None, "x", [], float("inf"), "9" * 5_000])
@pytest.mark.parametrize("context", [None, "x", [1], {"choices": 3, "output": [], "schema": 1, "task": {}}])
def test_questions_of_any_form_are_shown_or_left_out(number: object, context: object) -> None:
    job = "11111111-1111-1111-1111-111111111111"
    one = {"job": job, "number": 1, "kind": "call", "prompt": "\x1b[2JGo?", "context": {}}
    for hostile in ({**one, "number": number}, {**one, "context": context}, {"job": 1}, None, [one]):
        questions = list(remote.questions_in({"document": {"questions": [hostile, one]}}))
        assert questions[-1].number == 1 and str(questions[-1].job_id) == job
        assert all("Go?" in question_text(question) for question in questions)
    assert list(remote.questions_in({"document": [one]})) == []
