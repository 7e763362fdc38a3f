"""Log lines without secrets."""

import logging

from viewer.redaction.texts import redact_text


class RedactingFormatter(logging.Formatter):
    """Writes log lines, and the errors behind them, without what looks like a secret."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record))
