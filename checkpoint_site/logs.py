"""How log lines are written: for people, or as one JSON object each. Both without secrets."""

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from viewer.cli.safe_lines import one_line
from viewer.redaction.texts import redact_text
from viewer.redaction.values import redact

# What every record has; anything else was given to it by whoever logs.
ORDINARY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
# What records of Django, uvicorn and asyncio are given beside that, and no program reads.
UNPRINTED = {"request", "status_code", "server_time", "color_message", "websocket"}

requests = logging.getLogger("forkline.requests")


class PlainFormatter(logging.Formatter):
    """One line for each message, and below it the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """What a message quotes cannot begin a line of its own."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        message = one_line(record.getMessage())
        lines = [f"{at} {record.levelname} {record.name}: {message}"]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        return redact_text("\n".join(lines))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and what else the record was given."""

    def format(self, record: logging.LogRecord) -> str:
        given = {
            name: value
            for name, value in vars(record).items()
            if name not in ORDINARY | UNPRINTED and not name.startswith("_")
        }
        line = {
            **{
                name: value if isinstance(value, int | float) else str(value) for name, value in given.items()
            },
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(redact(line))


def logged(answer: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: a line for each request, without its query, which may hold a login link."""

    def answered(request: HttpRequest) -> HttpResponseBase:
        begun = time.monotonic()
        response = answer(request)
        if requests.isEnabledFor(logging.INFO):
            milliseconds = round((time.monotonic() - begun) * 1000)
            told = {
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "milliseconds": milliseconds,
            }
            requests.info("%s %s %s in %s ms", *told.values(), extra=told)
        return response

    return answered
