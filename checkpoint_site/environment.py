"""Reads environment variables. An invalid value ends the program with a message instead of a traceback."""

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

# The folder that ``up`` serves (viewer/data_folder/identity.py).
SERVED = "FORKLINE_SERVED"
# The umask with which the first process was started, for the processes that it starts.
UMASK = "FORKLINE_UMASK"


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable: its name, its default as shown to people, and what it does."""

    name: str
    default: str
    text: str


# The names of PostgreSQL locations.
DATABASE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# Variables by their former names. Ignoring a limit that somebody has set would be worse than not starting.
RENAMED = {
    "CHECKPOINT_MOST_BYTES": "CHECKPOINT_MAX_BYTES",
    "CHECKPOINT_MOST_DEPTH": "CHECKPOINT_MAX_DEPTH",
    "CHECKPOINT_MOST_SECONDS": "CHECKPOINT_MAX_SECONDS",
    "CHECKPOINT_MOST_MEMORY": "CHECKPOINT_MAX_MEMORY",
    "CHECKPOINT_MOST_SHOWN_BYTES": "CHECKPOINT_MAX_SHOWN_BYTES",
    "CHECKPOINT_SETTLED_SECONDS": "CHECKPOINT_UNCHANGED_SECONDS",
    "LOCATION_WATCH_MILLISECONDS": "LOCATION_POLL_MILLISECONDS",
    "LOOK_SECONDS": "PREFLIGHT_SECONDS",
    "LOOKS_AT_ONCE": "MAX_PREFLIGHTS",
    "WARM_START": "PREWARM",
    "WARM_PROCESSES": "PREWARM_PROCESSES",
    "WARM_IDLE_SECONDS": "PREWARM_IDLE_SECONDS",
}
# All variables in the order in which they are read. docs/reference.md lists them.
SETTINGS: list[Setting] = []


def private_umask() -> int:
    """Make the files that this process creates private. Return the umask that it was started with.

    Runs use that one: files that a project's code writes are the user's.
    """
    found = os.umask(0o077)
    text = os.environ.setdefault(UMASK, f"{found:03o}")
    return int(text, 8) if text.isascii() and text.isdigit() and not set(text) & set("89") else found


class InvalidSetting(SystemExit):
    """A variable has an invalid value. The program ends with the message."""


def refuse_former_names() -> None:
    """Raise InvalidSetting if a variable is set under its former name only."""
    for former, name in RENAMED.items():
        if former in os.environ and name not in os.environ:
            raise InvalidSetting(f"{former} is now called {name}. Rename the environment variable.")


def env_text(name: str, default: str, text: str, shown: str = "") -> str:
    """Return the variable's value, or the default if it is unset or empty.

    ``text`` describes the variable. ``shown`` replaces a default that is long or depends on the machine.
    """
    SETTINGS.append(Setting(name, shown or default, text))
    return os.environ.get(name) or default


def env_number(name: str, default: int, text: str, shown: str = "") -> int:
    """Return the variable as an integer of at least 1. Raise InvalidSetting for anything else."""
    value = env_text(name, str(default), text, shown)
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise InvalidSetting(f"{name} must be a whole number of 1 or more, not {value!r}.")
    return int(value)


def env_number_or_none(name: str, least: int, text: str) -> int | None:
    """Return the variable as an integer of at least ``least``; None if it is empty. Raise InvalidSetting."""
    value = env_text(name, "", text, "off")
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or int(value) < least:
        raise InvalidSetting(f"{name} must be a whole number of {least} or more, not {value!r}.")
    return int(value)


def env_choice(name: str, default: str, choices: tuple[str, ...], text: str) -> str:
    """Return the variable as one of the choices. Raise InvalidSetting for anything else."""
    value = env_text(name, default, text).lower()
    if value not in choices:
        raise InvalidSetting(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def env_flag(name: str, default: bool, text: str) -> bool:
    """Return the variable as a boolean. Raise InvalidSetting for anything else."""
    value = env_text(name, "1" if default else "0", text).lower()
    if value not in {"0", "1", "true", "false"}:
        raise InvalidSetting(f"{name} must be 0 or 1, not {value!r}.")
    return value in {"1", "true"}


def env_paths(name: str, default: Path, text: str, shown: str) -> list[Path]:
    """Return the variable's absolute folders, separated by ``:``. Raise InvalidSetting for a relative one."""
    value = env_text(name, "", text, shown)
    paths = [Path(part) for part in value.split(os.pathsep) if part] or [default]
    for path in paths:
        if not path.is_absolute():
            raise InvalidSetting(f"{name} must hold absolute folders, not {str(path)!r}.")
    return [path.resolve() for path in paths]


def env_file(name: str, text: str, shown: str) -> Path | None:
    """Return the variable as the absolute path of a file, None if it is empty. Raise InvalidSetting."""
    value = env_text(name, "", text, shown)
    if value and not Path(value).is_absolute():
        raise InvalidSetting(f"{name} must be the absolute path of a file, not {value!r}.")
    return Path(value) if value else None


def env_databases(name: str, text: str) -> dict[str, str]:
    """Return the variable's PostgreSQL connections by name: ``NAME=CONNECTION``, separated by ``;``.

    Raise InvalidSetting for anything else, and for a connection with a password. No message quotes one.
    """
    found: dict[str, str] = {}
    for part in filter(str.strip, re.split(r"[;\n]", env_text(name, "", text, "none"))):
        alias, _equals, connection = map(str.strip, part.partition("="))
        if not DATABASE_NAME.fullmatch(alias) or not connection or alias in found:
            raise InvalidSetting(f"{name} must hold NAME=CONNECTION, separated by ';', each name once.")
        if error := connection_fault(connection):
            raise InvalidSetting(f"{name}: the connection of {alias} {error}")
        found[alias] = connection
    return found


def connection_fault(connection: str) -> str:
    """Return what is wrong with a connection string for libpq, without quoting it; empty if nothing is."""
    # Imported here: it loads libpq, which only PostgreSQL locations need.
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parameters = conninfo_to_dict(connection)
    except ProgrammingError:
        return "is not a connection string or URI as libpq reads it."
    if any("password" in key or "secret" in key for key in parameters):
        advice = "Use a password file (passfile=… or ~/.pgpass), a service file (service=…) or PGPASSWORD"
        return f"has a password. {advice} instead."
    return ""


def env_zone(name: str, default: str, text: str) -> str:
    """Return the variable as the name of a time zone. Raise InvalidSetting for an unknown one."""
    value = env_text(name, default, text)
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):
        raise InvalidSetting(f"{name} must be a time zone such as Europe/Paris, not {value!r}.") from None
    return value


def env_folder(name: str, default: Path, text: str, shown: str) -> Path:
    """Return the variable as a folder, and create it if it is missing.

    Raise InvalidSetting if it cannot be created, or if ``up`` serves it and it has disappeared.
    """
    folder = Path(env_text(name, str(default), text, shown))
    try:
        folder = folder.resolve()
        if os.environ.get(SERVED, "").startswith(f"{folder}|") and not folder.exists():
            advice = "Restore it, or stop Forkline and start it again"
            raise InvalidSetting(f"{name}: the folder {folder} is missing. {advice}.")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidSetting(f"{name}: the folder {folder} cannot be created ({reason}).") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidSetting(f"{name}: the folder {folder} is not writable.")
    return folder


def signing_key(folder: Path) -> str:
    """Return the data folder's signing key, created on first use and readable by its owner only."""
    path = folder / "secret_key"
    if not path.exists():
        complete = folder / f"secret_key.{secrets.token_hex(8)}"
        descriptor = os.open(complete, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            # Linked when complete: another process may be starting too.
            path.hardlink_to(complete)
        except FileExistsError:
            pass
        finally:
            complete.unlink()
    return path.read_text()
