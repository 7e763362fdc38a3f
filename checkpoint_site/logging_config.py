"""The configuration of logging, for ``LOGGING`` of the settings."""

from typing import Any


def logging_config(log_format: str, *, logs_requests: bool) -> dict[str, Any]:
    """Return the configuration with this format, ``plain`` or ``json``."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        # An error message may quote what was read: both formatters redact secrets.
        "formatters": {
            "plain": {"()": "checkpoint_site.logs.PlainFormatter"},
            "json": {"()": "checkpoint_site.logs.JsonFormatter"},
        },
        "filters": {
            "refusals": {"()": "checkpoint_site.logs.OneLineRefusals"},
            "failures": {"()": "checkpoint_site.logs.BriefFailures"},
        },
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "formatter": log_format,
                "filters": ["refusals", "failures"],
            }
        },
        "root": {"handlers": ["console"], "level": "WARNING"},
        "loggers": {
            "forkline.jobs": {"level": "INFO"},
            # viewer/host/remote.py reports its failures in one line.
            "procrastinate": {"level": "CRITICAL"},
            "forkline.requests": {"level": "INFO" if logs_requests else "WARNING"},
        },
    }
