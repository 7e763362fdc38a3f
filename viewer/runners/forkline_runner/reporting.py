"""What a run reports to its spool, with messages for people, what it asks, and the limits that stop it.

Events come from several threads, and exactly one is the last. A question is an event, and a file holds its
answer. Limits are enforced inside the run's process, so that they hold even if the worker dies.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from viewer.host.jobs.spool import Spool

# Messages for people: the runner sends a code and its values, and the web side shows the text.
#
# The texts are those of viewer/messages/runner_catalog.py. The runner needs them in English, for its
# exceptions and log.


CATALOG = Path(__file__).resolve().parents[2] / "messages" / "runner_catalog.py"
_PLACEHOLDER = re.compile(r"%\((\w+)\)([dsr])")


class Message(TypedDict):
    """The same as ``UserMessage`` of viewer/messages/message.py."""

    code: str
    values: dict[str, str | int | list[Message]]


def message(code: str, /, **values: object) -> Message:
    """Return the message of this code. Values other than integers and lists of messages become texts."""
    plain = {
        name: value if isinstance(value, int | list) else plain_str(value) for name, value in values.items()
    }
    return Message(code=code, values=plain)


def plain_str(value: object) -> str:
    """Return a value as a text; only its type if the project's own code, which makes the text, fails."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def described(error: BaseException) -> str:
    """Return the type of an error and what it says."""
    return f"{type(error).__name__}: {plain_str(error)}"


def plain_text(text: object) -> Message:
    """Return a message that consists of this text."""
    return message("plain_text", text=text)


def english(sent: Message) -> str:
    """Return the text of a message in English."""
    if sent["code"] == "plain_text":
        return str(sent["values"]["text"])

    def value_at(found: re.Match[str]) -> str:
        value = sent["values"].get(found[1], found[0])
        if isinstance(value, list):
            return " ".join(map(english, value))
        return repr(value) if found[2] == "r" else str(value)

    text = texts().get(sent["code"])
    return f"{sent['code']} {sent['values']}" if text is None else _PLACEHOLDER.sub(value_at, text)


@cache
def texts() -> dict[str, str]:
    """Return the runners' texts by code. Loaded by path: a project may have a package called ``viewer``."""
    spec = importlib.util.spec_from_file_location("forkline_texts", CATALOG)
    assert spec is not None and spec.loader is not None, CATALOG
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.MESSAGES
    return found


class Refused(Exception):
    """The run was refused: nothing has run and nothing was paid. ``message`` says why, and what to do."""

    def __init__(self, code: str, /, **values: object) -> None:
        self.message = message(code, **values)
        super().__init__(english(self.message))


# Events, questions and limits.


# Streamed text is collected for this long, so that a fast model does not flood the spool.
SECONDS_BETWEEN_TEXTS = 0.05
# Text that may be part of a key is held back until its rest arrives, up to this many characters.
MAX_HELD = 400
MAX_HELD_PRIVATE_KEY = 8000
_BETWEEN_WORDS = re.compile(r"(?<=\s)(?=\S)")
_NAMES_WHAT_FOLLOWS = re.compile(r"(?:[:=]|[Bb]earer|[Bb]asic)\s*\Z")
# A name and the start of a quoted value that has not ended.
_BEGUN_VALUE = re.compile(r"""[\w-]+["']?\s*[:=]\s*(["'])(?:(?!\1).)*\Z""", re.DOTALL)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
ANSWER_POLL_SECONDS = 0.1
# Measured as JSON, so that a question always fits into one event.
MAX_OUTPUT_BYTES = 160_000
MAX_PROMPT_BYTES = 40_000
MAX_SCHEMA_BYTES = 40_000
MAX_CHARACTERS = 2000
MAX_CHOICES, MAX_CHOICES_BYTES = 50, 200_000
MAX_ID_CHARACTERS = 500
# The fields of ``Limit`` in viewer/records/limits.py: ``whose``, ``measure`` and ``max_amount``.
Limit = dict[str, Any]
LIMIT_POLL_SECONDS = 0.2
# Providers and libraries have several names for each number of tokens.
_TOKENS_IN = ("prompt_tokens", "input_tokens")
_TOKENS_OUT = ("completion_tokens", "output_tokens")
_CACHED = (
    "cached_prompt_tokens",
    "cached_tokens",
    "cache_read",
    "cache_read_input_tokens",
    "cache_read_tokens",
)
_DETAILS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


class Reporter:
    """Writes events to the spool, from any thread, and none after the last one."""

    # Set after the reporter is created.
    questions: Questions
    limits: LimitCounter | None = None

    def __init__(self, spool: Spool, folder: Path | str = "") -> None:
        self._spool, self._folder = spool, folder
        # Reentrant: a signal handler may interrupt its own thread in here.
        self._lock = threading.RLock()
        self._texts: dict[str, str] = {}
        self._text_at = 0.0
        self._warned: set[str] = set()
        self.has_ended = False

    def hide(self, texts: list[str]) -> None:
        """Replace these texts in every event from now on."""
        with self._lock:
            self._spool.hide(texts)

    def write(self, kind: str, /, **data: Any) -> None:
        """Append an event, after the streamed text of its agent that has not been written yet.

        Raises KeyboardInterrupt for an event that a limit does not allow.
        """
        if self.limits:
            self.limits.check(self, kind, data)
        with self._lock:
            # Other agents may be in the middle of a key.
            self._write_texts(list(self._texts) if kind == "ended" else [data.get("agent")])
            if not self.has_ended:
                self._append(kind, data)

    def warn(self, code: str, /, **values: object) -> None:
        """Report a warning, which does not stop the run. The same warning is reported once."""
        warning = message(code, **values)
        text = english(warning)
        with self._lock:
            if text not in self._warned:
                self._warned.add(text)
                self.write("warning", message=warning)

    def stream(self, text: str, agent: str) -> None:
        """Add to the text that a model is writing. It is reported at most every 50 ms."""
        with self._lock:
            self._texts[agent] = self._texts.get(agent, "") + text
            if time.monotonic() - self._text_at >= SECONDS_BETWEEN_TEXTS:
                self._write_texts()

    def end(self, status: str, result: str = "", error: str | Message = "", traceback: str = "") -> None:
        """Append the last event, once."""
        with self._lock:
            self.write("ended", status=status, result=result, error=error, traceback=traceback)
            self.has_ended = True

    def _append(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event. If the disk is full, stop the run: nothing more of it could be stored."""
        try:
            self._spool.write(kind, **data)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.has_ended = True
            if kind == "ended":
                self._spool.write_reserved(kind, **data)
                return
            reason = message("runner.disk_full", path=self._folder)
            self._spool.write_reserved("ended", status="failed", result="", error=reason, traceback="")
            os.kill(os.getpid(), signal.SIGINT)

    def _write_texts(self, completed: Collection[str | None] = ()) -> None:
        """Append the streamed texts: whole words of them, and all of these agents."""
        texts, self._texts = self._texts, {}
        self._text_at = time.monotonic()
        for agent, text in texts.items():
            end = len(text) if agent in completed else end_of_whole_words(text)
            if end < len(text):
                self._texts[agent] = text[end:]
            if end and not self.has_ended:
                self._append("text", {"text": text[:end], "agent": agent})


def end_of_whole_words(text: str) -> int:
    """Return how many characters of an unfinished text can be shown: no partial word, no name without value.

    Secrets are redacted event by event, and one that is split over two events would not be found.
    """
    begun = text.rfind("-----BEGIN ")
    if begun >= 0 and len(text) - begun < MAX_HELD_PRIVATE_KEY:
        _content, end, last_line = text[begun:].partition("-----END ")
        if not end or "-----" not in last_line:
            return begun
    first = max(0, len(text) - MAX_HELD)
    for between in reversed([match.end() for match in _BETWEEN_WORDS.finditer(text, first)]):
        if not _NAMES_WHAT_FOLLOWS.search(text, first, between) and text[between] not in ":=":
            return between
    # Text without spaces, such as Chinese, has no word boundaries to cut at.
    return len(text) if first or not text.isascii() else 0


def shortened(text: str, max_length: int) -> str:
    """Return at most this many of its first characters, without what may be a partial key at the end.

    A partial key is no longer recognised as a secret.
    """
    if len(text) <= max_length:
        return text
    begun = text[: end_of_whole_words(text[:max_length])]
    value = _BEGUN_VALUE.search(begun, max(0, len(begun) - MAX_HELD))
    return begun[: value.start()] if value else begun


def short_texts(value: Any, max_length: int) -> Any:
    """Return a JSON value with shorter texts. Those without blanks may be ids, and stay longer."""
    if isinstance(value, dict):
        return {name: short_texts(item, max_length) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [short_texts(item, max_length) for item in value]
    if not isinstance(value, str):
        return value
    is_id = value.isascii() and not re.search(r"\s", value)
    return shortened(value, max(max_length, MAX_ID_CHARACTERS) if is_id else max_length)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names look like keys, tokens or passwords."""
    return [
        value for name, value in environment.items() if any(word in name.upper() for word in SECRET_NAMES)
    ]


class Questions:
    """Asks questions, numbered from 1, from any thread."""

    def __init__(self, folder: Path, reporter: Reporter, answer_name: Callable[[int], str]) -> None:
        self._folder = folder
        self._reporter = reporter
        self._answer_name = answer_name
        self._lock = threading.Lock()
        self._asked = 0
        # The askers of the open questions, by number.
        self._waiting: dict[int, Any] = {}

    def ask(self, kind: str, prompt: str, asker: Any = None, **context: Any) -> str:
        """Ask, and wait without a time limit. Return the answer; empty if a person accepts the output.

        Raises Withdrawn if ``withdraw`` is called for the asker.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
            self._waiting[number] = asker
            self._reporter.write(
                "question",
                number=number,
                kind=kind,
                prompt=cut(prompt, MAX_PROMPT_BYTES),
                context=fitting(context),
            )
        try:
            text = self._answer(number)
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        self._reporter.write("answered", number=number)
        return text

    def is_waiting(self) -> bool:
        """Return whether a question is open."""
        return bool(self._waiting)

    def withdraw(self, asker: Any) -> None:
        """Withdraw the questions of this asker, which continues without an answer."""
        with self._lock:
            withdrawn = [number for number, one in self._waiting.items() if one == asker]
            for number in withdrawn:
                del self._waiting[number]
                self._reporter.write("withdrawn", number=number)

    def _answer(self, number: int) -> str:
        path = self._folder / self._answer_name(number)
        while True:
            if number not in self._waiting:
                raise Withdrawn
            try:
                return str(json.loads(path.read_text(encoding="utf-8"))["text"])
            except FileNotFoundError:
                time.sleep(ANSWER_POLL_SECONDS)


class Withdrawn(Exception):
    """The question was withdrawn: its asker continues without an answer."""


def fitting(context: dict[str, Any]) -> dict[str, Any]:
    """Return a question's context, short enough for one event. ``is_cut``: the output was shortened."""
    fit: dict[str, Any] = {}
    for name, value in context.items():
        if name == "output" and value is None:
            continue
        if name == "output":
            whole = as_text(value)
            fit["output"] = cut(whole, MAX_OUTPUT_BYTES)
            if len(fit["output"]) < len(whole):
                fit["is_cut"] = True
        elif name == "schema":
            # A part of it is not a schema.
            if value and len(json.dumps(value)) <= MAX_SCHEMA_BYTES:
                fit["schema"] = value
        elif isinstance(value, list):
            choices = [shortened(str(one), MAX_CHARACTERS) for one in value[:MAX_CHOICES]]
            fit[name] = [cut(choice, MAX_CHOICES_BYTES // len(choices)) for choice in choices]
        elif value not in (None, ""):
            fit[name] = value if isinstance(value, int) else shortened(str(value), MAX_CHARACTERS)
    return fit


def as_text(value: Any) -> str:
    """Return an output as readable text: texts unchanged, models and values as indented JSON."""
    if isinstance(value, str):
        return value
    # A model may hold what JSON cannot.
    with suppress(Exception):
        value = value.model_dump(mode="json")
    return as_json(value, indent=2)


def as_json(value: Any, default: Callable[[Any], Any] = str, **options: Any) -> str:
    """Return a value as JSON; as Python writes it, if code made what JSON cannot hold."""
    try:
        return json.dumps(value, ensure_ascii=False, default=default, **options)
    except Exception:
        # Keys that are no texts, values that hold themselves, and methods of the project that fail.
        return plain_str(value)


def cut(text: str, max_bytes: int) -> str:
    """Return as much of the text as fits into this many bytes as JSON."""
    if len(json.dumps(text)) <= max_bytes:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if len(json.dumps(text[:middle])) <= max_bytes:
            fits = middle
        else:
            too_long = middle
    return shortened(text, fits)


class LimitCounter:
    """Counts what the run's events report, and interrupts the run before it starts more than a limit allows.

    ``maximum`` holds the run's own limits (tokens, seconds, steps). The file ``stop`` appears when a limit
    that the run shares with others is reached. Time spent waiting for a person does not count.
    """

    def __init__(
        self,
        maximum: Mapping[str, float],
        stop: Path,
        is_waiting: Callable[[], bool],
        steps: Collection[str] = (),
    ) -> None:
        # Only these events are refused: a run that has nothing left to start may end.
        self._started = {"model_started", *(f"{step}_started" for step in steps)}
        self._completed = {f"{step}_completed" for step in steps}
        self._maximum = dict(maximum)
        self._stop = stop
        self._is_waiting = is_waiting
        self._lock = threading.Lock()
        self._used: dict[str, float] = {"tokens": 0, "seconds": 0, "steps": 0}
        self._is_over = False

    def lift(self) -> None:
        """Stop enforcing: the run has ended, or is interrupted already."""
        with self._lock:
            self._is_over = True

    def watch_time(self, reporter: Reporter) -> None:
        """Interrupt the run when its time is used up."""
        if "seconds" in self._maximum:
            threading.Thread(target=self._watch, args=(reporter,), daemon=True).start()

    def check(self, reporter: Reporter, kind: str, data: Mapping[str, Any]) -> None:
        """Count an event before it is written. Raises KeyboardInterrupt if what it starts is over a limit."""
        if kind in self._completed:
            self._used["steps"] += 1
        self._used["tokens"] = max(self._used["tokens"], data.get("total_tokens") or 0)
        if kind not in self._started:
            return
        limit = next((one for one in ("tokens", "steps") if self._is_reached(one)), None)
        reached = self._job_limit(limit) if limit else self._shared_limit()
        if reached is not None:
            self._interrupt(reporter, reached)
            # The signal reaches the main thread; this may be another one.
            raise KeyboardInterrupt

    def _job_limit(self, measure: str) -> Limit:
        return {"whose": "job", "measure": measure, "max_amount": self._maximum[measure]}

    def _shared_limit(self) -> Limit | None:
        """Return the shared limit that was reached: None if none was, empty if the file is unreadable."""
        try:
            found = json.loads(self._stop.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            # The file exists: that is enough to stop.
            found = None
        return found if isinstance(found, dict) else {}

    def _is_reached(self, measure: str) -> bool:
        return measure in self._maximum and self._used[measure] >= self._maximum[measure]

    def _watch(self, reporter: Reporter) -> None:
        before = time.monotonic()
        while not (self._is_over or self._is_reached("seconds")):
            time.sleep(LIMIT_POLL_SECONDS)
            now = time.monotonic()
            if not self._is_waiting():
                self._used["seconds"] += now - before
            before = now
        self._interrupt(reporter, self._job_limit("seconds"))

    def _interrupt(self, reporter: Reporter, reached: Limit) -> None:
        """Interrupt the run as a cancel does, once."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        reporter.write("limit", **reached)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def used_tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return ``tokens``, ``tokens_in``, ``tokens_out`` and ``cached`` of one call; 0 if not reported."""
    reported = (usage.get(name) for name in _DETAILS)
    details: Mapping[str, Any] = next((one for one in reported if isinstance(one, Mapping)), {})
    tokens_in, tokens_out = _first(usage, _TOKENS_IN), _first(usage, _TOKENS_OUT)
    return {
        "tokens": _first(usage, ("total_tokens",)) or tokens_in + tokens_out,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "cached": _first(usage, _CACHED) or _first(details, _CACHED),
    }


def _first(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    values = (usage.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), 0)
