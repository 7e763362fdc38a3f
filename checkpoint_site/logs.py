"""Logs: a line for each request, and formatters, plain and JSON, which redact secrets and tokens of links."""

import json
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from logging.handlers import WatchedFileHandler

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from viewer.redaction.known_secrets import redact_text
from viewer.redaction.values import redact
from viewer.validation import one_line

# The attributes of every record. Others come from the caller.
STANDARD_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
# Attributes that Django, uvicorn and asyncio add and no program reads.
OMITTED_ATTRIBUTES = {"request", "status_code", "server_time", "color_message", "websocket"}

# The token of a share link, an invitation or a link for a new password or mail address, a part of its path.
TOKEN = re.compile(r"(/(?:shared|invitation|password/new|account/mail)/)[^/\s\"']+")

# A failure that was not met for this long is logged again.
REPEATED_SECONDS = 60.0

GetResponse = Callable[[HttpRequest], HttpResponseBase]
requests = logging.getLogger("forkline.requests")


class OneLineRefusals(logging.Filter):
    """Logs a refused request without a traceback. Anybody can send one, and the message says why."""

    def filter(self, record: logging.LogRecord) -> bool:
        if HTTPStatus.BAD_REQUEST <= getattr(record, "status_code", 0) < HTTPStatus.INTERNAL_SERVER_ERROR:
            record.exc_info = record.exc_text = None
        return True


class BriefFailures(logging.Filter):
    """Logs a failure of the data folder's disk or database in one line, and not again while it lasts.

    Threads, followers and pages meet the same full disk many times a second, and the line says what to do.
    """

    def __init__(self) -> None:
        super().__init__()
        # The time at which each message was last logged or left out, on the monotonic clock.
        self._seen: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = _error_of(record)
        if error is None:
            return True
        from viewer.data_folder.failures import failure_text

        if not (text := failure_text(error)):
            return True
        record.msg, record.args = text, ()
        record.exc_info = record.exc_text = None
        now = time.monotonic()
        is_new = now - self._seen.get(text, float("-inf")) > REPEATED_SECONDS
        self._seen[text] = now
        return is_new


def _error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the error of which a record has the traceback or the message."""
    if record.exc_info:
        return record.exc_info[1]
    arguments = record.args if isinstance(record.args, tuple) else ()
    return next((one for one in arguments if isinstance(one, Exception)), None)


class PlainFormatter(logging.Formatter):
    """One line per message, followed by the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text. Text quoted in a message cannot start a new line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        message = one_line(record.getMessage())
        lines = [f"{at} {record.levelname} {record.name}: {message}"]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        return without_tokens(redact_text("\n".join(lines)))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the attributes from the caller."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {
            name: value
            for name, value in vars(record).items()
            if name not in STANDARD_ATTRIBUTES | OMITTED_ATTRIBUTES and not name.startswith("_")
        }
        line = {
            **{
                name: value if isinstance(value, int | float) else str(value) for name, value in extra.items()
            },
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_tokens(json.dumps(redact(line)))


class AuditFile(WatchedFileHandler):
    """Appends entries of the audit trail to a file, which a program that rotates logs may replace.

    They are stored by then. So a failure is reported on stderr, and stops nothing.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Append an entry. The library reports a failed write, but raises if the file cannot be opened."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)


def without_tokens(text: str) -> str:
    """Return the text without the tokens of share links, invitations and links of accounts."""
    return TOKEN.sub(r"\1[token]", text)


def log_request(get_response: GetResponse) -> GetResponse:
    """Middleware: log each request without its query string, which may hold a login link."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        started = time.monotonic()
        response = get_response(request)
        if requests.isEnabledFor(logging.INFO):
            milliseconds = round((time.monotonic() - started) * 1000)
            details = {
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "milliseconds": milliseconds,
            }
            requests.info("%s %s %s in %s ms", *details.values(), extra=details)
        return response

    return middleware
