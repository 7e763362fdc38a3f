"""``forkline --server URL``: sends a command to a server elsewhere, and returns its output.

It waits for what the command has started, and the output is printed like that of a command on this machine.

Nothing that the server answers is trusted: texts are printed as safe lines, and the only files that are
written are new ones that the person has named, or that are named after a run in this folder.
"""

import http.client
import ipaddress
import json
import re
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.cli import SUBCOMMANDS, Output, warn, written
from viewer.cli.arguments import request_of
from viewer.cli.running import can_ask, event_line, prompt_for, question_text, say, typed_line
from viewer.cli.starting import FOLLOWS, WAITS_STATUS
from viewer.models import Question
from viewer.models.accounts import API_TOKEN
from viewer.validation import InvalidInput, brief, content_of, one_line

# Commands that need the machine of the server: its database, data folder and programs, and who may use it.
ON_MACHINE = {"backup", "clean", "doctor", "isolation", "move", "restore", "tokens"}
# Seconds until a connection is given up, until an answer arrives, and until all of it has arrived.
CONNECT_SECONDS, ANSWER_SECONDS, TOTAL_SECONDS = 10.0, 120.0, 600.0
# Seconds after each of which a request is sent again, and for which a wait goes on without an answer.
PAUSES, PATIENCE_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0), 300.0
# Seconds between two looks at a job: short at first, and while something happens.
MIN_POLL, MAX_POLL = 0.2, 2.0
# Characters of an answer.
MAX_ANSWER = 64 * 1024 * 1024
TOKEN_FILE_BYTES = 1_000
# What may pass without an effect on a second attempt.
BUSY = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
HOST = re.compile(r"[\w.:-]+")


class ConnectionFailed(Exception):
    """There was no answer. The message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server: its origin, and the token with which it is used."""

    address: str
    host: str
    port: int
    is_secure: bool
    token: str


def server_at(address: str) -> Server:
    """The server at an address, with the token from the environment. Raises CommandError."""
    try:
        parts = urlsplit(one_line(address))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    is_origin = HOST.fullmatch(host) and parts.scheme in ("http", "https") and not parts.path.strip("/")
    if not is_origin or "@" in parts.netloc or parts.query or parts.fragment:
        raise CommandError(_("Name a server as https://HOST or https://HOST:PORT, not %s.") % address)
    is_secure = parts.scheme == "https"
    if not is_secure and not _is_loopback(host):
        message = _("%s is not encrypted: a token is only sent over https, or to this machine itself.")
        raise CommandError(message % address)
    shown = f"{parts.scheme}://{parts.netloc}"
    return Server(shown, host, port or (443 if is_secure else 80), is_secure, _token())


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def _token() -> str:
    """The token of FORKLINE_TOKEN, or of the private file FORKLINE_TOKEN_FILE. Raises CommandError."""
    text = settings.FORKLINE_TOKEN
    if not text and (file := settings.FORKLINE_TOKEN_FILE):
        try:
            if stat.S_IMODE(Path(file).stat().st_mode) & 0o077:
                raise CommandError(_("Other users can read %s. Make it private: chmod 600") % file)
            text = content_of(file, TOKEN_FILE_BYTES).decode(errors="replace").strip()
        except InvalidInput as error:
            raise CommandError(str(error.of("FORKLINE_TOKEN_FILE"))) from None
        except OSError as error:
            raise CommandError(f"FORKLINE_TOKEN_FILE: {error.strerror}") from None
    if not API_TOKEN.fullmatch(text):
        raise CommandError(
            _("Set FORKLINE_TOKEN to an API token of the server, or FORKLINE_TOKEN_FILE to a file with it.")
        )
    return str(text)


# Requests.


@dataclass(frozen=True, slots=True)
class Answer:
    """A document, with its HTTP status, the exit status of its command, and the version of the server."""

    document: Mapping[str, Any]
    status: int
    exit_status: int | None
    version: str


def sent(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    """Send a request, and return the answer. Raises ConnectionFailed and CommandError.

    A redirection is not followed, so the token is sent to no other host.
    """
    connection, deadline = _connection(server), None
    try:
        with closing(connection):
            connection.connect()
            _check_peer(server, connection)
            connection.sock.settimeout(ANSWER_SECONDS)
            deadline = _deadline(connection.sock)
            fixed = {
                "Authorization": f"Bearer {server.token}",
                "Content-Type": "application/json",
                "User-Agent": f"Forkline/{settings.VERSION}",
            }
            connection.request(method, path, body or None, {**fixed, **headers})
            response = connection.getresponse()
            data = response.read(MAX_ANSWER + 1)
            if response.length and len(data) <= MAX_ANSWER:
                # ``read`` says nothing about a connection that ends within an answer.
                raise http.client.IncompleteRead(data, response.length)
    except ssl.SSLCertVerificationError as error:
        message = _("The certificate of %(server)s is not valid: %(reason)s")
        values = {"server": server.address, "reason": error.verify_message}
        raise CommandError(message % values) from None
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionFailed(str(error) or type(error).__name__) from None
    finally:
        if deadline:
            deadline.cancel()
    return _answer(server, response, data)


def _connection(server: Server) -> http.client.HTTPConnection:
    if not server.is_secure:
        return http.client.HTTPConnection(server.host, server.port, timeout=CONNECT_SECONDS)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(server.host, server.port, timeout=CONNECT_SECONDS, context=context)


def _check_peer(server: Server, connection: http.client.HTTPConnection) -> None:
    """Raise CommandError if an address without TLS has led elsewhere than to this machine."""
    if not server.is_secure and not _is_loopback(str(connection.sock.getpeername()[0])):
        raise CommandError(
            _("%s is not this machine: a token is only sent there over https.") % server.address
        )


def _deadline(sock: socket.socket) -> threading.Timer:
    """Start a timer that ends a connection: a byte from time to time reaches no timeout of the socket.

    It needs the socket, which the connection gives up once the answer has begun and will end with it.
    """
    timer = threading.Timer(TOTAL_SECONDS, _end, [sock])
    timer.daemon = True
    timer.start()
    return timer


def _end(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _answer(server: Server, response: http.client.HTTPResponse, data: bytes) -> Answer:
    """The answer in a response. Raises CommandError for one that Forkline does not give."""
    if 300 <= response.status < 400:
        message = _("%s leads to another address. Name that one: the token is not sent to it by itself.")
        raise CommandError(message % server.address)
    if len(data) > MAX_ANSWER:
        raise CommandError(_("The answer of %s is too long.") % server.address)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    version = response.headers.get("Forkline-Version", "")
    if not version and response.status in BUSY:
        # A proxy's, or the server's own before a command has begun.
        reason = document.get("error") if isinstance(document, dict) else None
        raise ConnectionFailed(f"{response.status} {reason or response.reason}")
    if not isinstance(document, dict) or not (version or "error" in document):
        raise CommandError(_("%s does not answer as Forkline does.") % server.address)
    status = response.headers.get("Forkline-Exit-Status", "")
    exit_status = int(status) if re.fullmatch(r"[0-9]{1,3}", status) else None
    return Answer(document, response.status, exit_status, version)


def repeated(server: Server, send: Callable[[], Answer], seconds: float | None = None) -> Answer:
    """What ``send`` returns, called again if there was no answer.

    Pauses for ``seconds``, by default for all pauses together, then raises ConnectionFailed.
    The duration of slow attempts counts only after PATIENCE_SECONDS.
    """
    pauses, left = iter(PAUSES), seconds or sum(PAUSES)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = send()
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE or left <= 0 or time.monotonic() > until:
                return answer
            reason = str(answer.document.get("error"))
        except ConnectionFailed as failed:
            reason = str(failed)
            if left <= 0 or time.monotonic() > until:
                raise
        pause = next(pauses, PAUSES[-1])
        if pause == PAUSES[0]:
            warn(_("%s Trying again …") % no_answer(server, reason))
        time.sleep(pause)
        left -= pause


def no_answer(server: Server, reason: str) -> str:
    """That a server has not answered, and why."""
    return brief(_("No answer from %(server)s: %(reason)s.") % {"server": server.address, "reason": reason})


# Commands.

# Those that change something without a key: sent once, because an answer that is lost says nothing.
SENT_ONCE = {"answer", "cancel", "collection", "comments", "hosts", "note", "prune", "remove"}
# The options that name a new file, which is written here.
NEW_FILES = {"export": "output", "collection": "export"}


def run_there(address: str, command: str, arguments: Sequence[str], options: Mapping[str, Any]) -> Output:
    """The output of a command line that a server runs. Raises CommandError."""
    if command in ON_MACHINE:
        text = _("forkline %s needs the machine itself. Run it there, without --server and FORKLINE_SERVER.")
        raise CommandError(text % command)
    server, body = server_at(address), request_of(command, arguments)
    call = Call(server, command, body, bool(options.get("json")))
    found = call.send()
    for text in texts_in(found, "warnings"):
        warn(text)
    status = exit_status_of(found)
    if options.get("wait") and (jobs := unfinished_in(found)):
        if status:
            # Some of several were refused. What is printed in the end is about the others.
            for line in texts_in(found, "lines"):
                warn(line)
        found = call.waited(jobs, prints_events=options["wait"] == FOLLOWS)
        status = exit_status_of(found) or status
    return output_of(command, found, options, status)


@dataclass(frozen=True, slots=True)
class Call:
    """A command line as a request. It has one key, so what it starts starts at most once."""

    server: Server
    command: str
    body: Mapping[str, Any]
    is_json: bool
    key: str = field(default_factory=lambda: str(uuid4()))

    @property
    def reply(self) -> str:
        return "reply=json" if self.is_json else "reply=lines"

    def send(self, *, waited: bool = False) -> Mapping[str, Any]:
        """Send it, and return the answer. Raises CommandError."""
        path = f"/api/commands/{self.command}?{self.reply}{'&waited=true' if waited else ''}"
        data = json.dumps(self.body).encode()

        def send() -> Answer:
            return sent(self.server, "POST", path, data, **{"Idempotency-Key": self.key})

        # With another key, the same command would start again.
        is_change = self.command in SENT_ONCE or SUBCOMMANDS[self.command].outcome is not None
        unknown = _("%s It may have been done: look before you repeat it.") if is_change else "%s"
        try:
            answer = send() if self.command in SENT_ONCE else repeated(self.server, send)
        except ConnectionFailed as failed:
            raise CommandError(unknown % no_answer(self.server, str(failed))) from None
        except KeyboardInterrupt:
            if is_change:
                warn(unknown % _("Interrupted."))
            raise
        return checked(self.server, answer)

    def waited(self, jobs: Sequence[UUID], *, prints_events: bool) -> Mapping[str, Any]:
        """Wait until the jobs have ended or ask, and return the answer then. Raises CommandError.

        At a terminal, their questions are asked. Ctrl-C ends the wait only: the jobs continue.
        """
        # The number of the last event that was received of each job.
        received = dict[UUID, int]()
        try:
            found: Mapping[str, Any] = {}
            while jobs:
                for job in jobs:
                    received[job] = follow(
                        self.server, job, received.get(job, 0), prints_events=prints_events
                    )
                found = self._outcome(jobs[0])
                jobs = unfinished_in(found)
                if not jobs and exit_status_of(found) == WAITS_STATUS and answer_here(self.server, received):
                    jobs = list(received)
        except KeyboardInterrupt:
            for job in jobs:
                warn(_("The run continues. To end it: forkline cancel %s") % job)
            raise
        return found

    def _outcome(self, job: UUID) -> Mapping[str, Any]:
        if self.command not in SENT_ONCE:
            return self.send(waited=True)
        return got(self.server, f"/api/jobs/{job}/outcome?{self.reply}")


def follow(server: Server, job: UUID, after: int, *, prints_events: bool) -> int:
    """Wait until a job has ended, asks or will not start. Raises CommandError if the server stays away.

    It begins behind the event with this number, and returns the number of the last one. After a broken
    connection, it continues with the first event that it has not received.
    """
    pause = MIN_POLL
    while True:
        found = got(server, f"/api/jobs/{job}/events?after={after}", PATIENCE_SECONDS)
        events: object = found.get("events")
        for event in events if prints_events and isinstance(events, list) else ():
            if isinstance(event, dict):
                warn(event_line(str(found.get("branch")), event))
        newest: object = found.get("next")
        pause = min(pause * 1.5, MAX_POLL)
        if isinstance(newest, int) and newest > after:
            after, pause = newest, MIN_POLL
        if found.get("is_over") is True:
            return after
        time.sleep(pause)


def answer_here(server: Server, jobs: Collection[UUID]) -> bool:
    """Ask at this terminal what these jobs wait for, and send each answer, until none waits.

    Returns False if nobody can answer here: there is no terminal, or it was closed. Raises CommandError.
    """
    shown = set[tuple[UUID, int]]()
    while can_ask():
        found = Call(server, "answer", {}, is_json=True).send()
        question = next((one for one in questions_in(found) if one.job_id in jobs), None)
        if question is None:
            return True
        if (key := (question.job_id, question.number)) not in shown:
            shown.add(key)
            say(f"\n{question_text(question)}")
        prompt_for(question)
        line = typed_line()
        if line is None:
            continue
        if not line:
            return False
        body = {"job": str(question.job_id), "number": str(question.number), "text": line.strip()}
        try:
            sent_answer = Call(server, "answer", body, is_json=True).send().get("document")
        except CommandError as refused:
            # It does not fit, or whether it has arrived is unknown: the question is asked if it still waits.
            say(str(refused))
            continue
        if isinstance(sent_answer, dict) and sent_answer.get("answered") is False:
            say(_("Your answer was not used: the question was already answered."))
    return False


def questions_in(found: Mapping[str, Any]) -> Iterator[Question]:
    """The pending questions in an answer, however it is formed. They are not stored here."""
    document = found.get("document")
    listed: object = document.get("questions") if isinstance(document, dict) else None
    for one in listed if isinstance(listed, list) else ():
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            yield Question(
                job_id=UUID(one["job"]),
                number=int(one["number"]),
                kind=str(one["kind"]),
                prompt=str(one["prompt"]),
                context=dict(one["context"]),
            )


def got(server: Server, path: str, seconds: float | None = None) -> Mapping[str, Any]:
    """The document at an address. Raises CommandError."""
    try:
        return checked(server, repeated(server, partial(sent, server, "GET", path), seconds))
    except ConnectionFailed as failed:
        raise CommandError(no_answer(server, str(failed))) from None


def checked(server: Server, answer: Answer) -> Mapping[str, Any]:
    """The document of an answer. Raises CommandError for an error."""
    if answer.status < HTTPStatus.BAD_REQUEST:
        return answer.document
    if answer.status == HTTPStatus.UNAUTHORIZED:
        message = _("%s does not accept the token: it is not one of this server, has expired or was revoked.")
        raise CommandError(message % server.address)
    text = str(answer.document.get("error"))
    if answer.status == HTTPStatus.NOT_FOUND and not answer.version:
        text = _("%s does not know this command. It may run another version of Forkline.") % server.address
    elif answer.version not in ("", settings.VERSION):
        values = {"theirs": answer.version, "own": settings.VERSION}
        text += " " + _("The server runs Forkline %(theirs)s, and this is Forkline %(own)s.") % values
    raise CommandError(text, returncode=answer.exit_status or 1)


def texts_in(found: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts in an answer, however it is formed."""
    values = found.get(name)
    return list(map(str, values)) if isinstance(values, list) else []


def exit_status_of(found: Mapping[str, Any]) -> int:
    """The exit status in an answer."""
    status: object = found.get("status")
    return status if isinstance(status, int) and 0 <= status < 256 else 1


def unfinished_in(found: Mapping[str, Any]) -> list[UUID]:
    """The jobs that an answer waits for."""
    jobs = []
    for text in texts_in(found, "unfinished"):
        with suppress(ValueError):
            jobs.append(UUID(text))
    return jobs


def output_of(command: str, found: Mapping[str, Any], options: Mapping[str, Any], status: int) -> Output:
    """The output of an answer, with its file if it has one. Raises CommandError if it cannot be written."""
    document = found.get("document")
    document = document if isinstance(document, dict) else {}
    file: object = found.get("file")
    target: str | None = options.get(NEW_FILES.get(command, ""))
    # Only an export needs no name.
    if not isinstance(file, str) or (target is None and command != "export"):
        return Output(document, texts_in(found, "lines"), status)
    if target == "-":
        return Output({**document, "text": file}, [], status, file)
    return written(document, target or _new_name(found, options), file)


def _new_name(found: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The name of a new file in this folder: of the format that was asked for, whatever the server calls it.

    Other files, such as ``conftest.py`` and ``Makefile``, are executed by programs that find them.
    """
    from viewer.presentation.export import ALL_FORMATS, file_named

    return file_named(str(found.get("file_name") or ""), ALL_FORMATS[options["format"]])
