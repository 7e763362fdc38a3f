"""Reads environment variables. An invalid value ends the program with a message instead of a traceback."""

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.core.checks.security.base import (
    SECRET_KEY_INSECURE_PREFIX,
    SECRET_KEY_MIN_LENGTH,
    SECRET_KEY_MIN_UNIQUE_CHARACTERS,
)

from viewer.databases import parameters_in
from viewer.validation import MAX_DAYS, InvalidInput, one_line_text, path, quoted, shortened, whole_number
from viewer.validation import existing_file as file_at

# The folder that ``up`` serves (viewer/data_folder/permissions.py).
SERVED = "FORKLINE_SERVED"
# The umask with which the first process was started, for the processes that it starts.
UMASK = "FORKLINE_UMASK"


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable: its name, its default as shown to people, what it does, and its kind."""

    name: str
    default: str
    text: str
    kind: str


# The names of PostgreSQL locations.
DATABASE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# A bucket, and a prefix of its keys.
BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9._-]*){0,20}")
TOKEN = re.compile(r"[!-~]{16,200}")
# A host as browsers name it, and an origin. Other characters have a meaning in a content security policy.
HOST_NAME = r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])"
EXACT_ORIGIN = re.compile(rf"https?://{HOST_NAME}(?::[0-9]{{1,5}})?")
# All hosts of a domain begin with a dot, and in an origin with "*." as well.
HOST = re.compile(rf"\.?{HOST_NAME}|\*")
ORIGIN = re.compile(rf"https?://(?:\*?\.)?{HOST_NAME}(?::[0-9]{{1,5}})?")
# Characters of a variable, and the largest numbers of seconds and bytes. Larger ones cannot be computed.
MAX_CHARACTERS = 10_000
MAX_SECONDS, MAX_BYTES = 10**9, 2**50
# Characters of a path that are shown.
MAX_SHOWN = 300
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


def env_text(name: str, default: str, text: str, shown: str = "", kind: str = "text") -> str:
    """Return the variable's value, or the default if it is unset or empty.

    ``text`` describes the variable. ``shown`` replaces a default that is long or depends on the machine.
    Raise InvalidSetting for a text that is too long, not UTF-8, or that controls a terminal.
    """
    SETTINGS.append(Setting(name, shown or default, text, kind))
    value = os.environ.get(name) or default
    try:
        for line in re.split(r"[\n\t]", value):
            one_line_text(line, MAX_CHARACTERS, may_be_empty=True)
    except InvalidInput:
        raise InvalidSetting(f"{name} must be a text of at most {MAX_CHARACTERS} characters.") from None
    return value


def env_number(
    name: str, default: int, text: str, shown: str = "", *, least: int = 1, most: int = MAX_SECONDS
) -> int:
    """Return the variable as an integer from ``least`` to ``most``. Raise InvalidSetting for others."""
    return _number(name, env_text(name, str(default), text, shown, "number"), least, most)


def env_days(name: str, text: str) -> int | None:
    """Return the variable as 2 or more days, None if it is empty. Raise InvalidSetting for anything else."""
    value = env_text(name, "", text, "off", "number")
    return _number(name, value, 2, MAX_DAYS) if value else None


def _number(name: str, value: str, least: int, most: int) -> int:
    try:
        return whole_number(value, least, most)
    except InvalidInput as error:
        raise InvalidSetting(str(error.of(name))) from None


def env_choice(name: str, default: str, choices: tuple[str, ...], text: str) -> str:
    """Return the variable as one of the choices. Raise InvalidSetting for anything else."""
    value = env_text(name, default, text, kind="choice").lower()
    if value not in choices:
        raise InvalidSetting(f"{name} must be one of {', '.join(choices)}, not {quoted(value)}.")
    return value


def env_flag(name: str, default: bool, text: str) -> bool:
    """Return the variable as a boolean. Raise InvalidSetting for anything else."""
    value = env_text(name, "1" if default else "0", text, kind="choice").lower()
    if value not in {"0", "1", "true", "false"}:
        raise InvalidSetting(f"{name} must be 0 or 1, not {quoted(value)}.")
    return value in {"1", "true"}


def env_paths(name: str, default: Path, text: str, shown: str) -> list[Path]:
    """Return the variable's absolute folders, separated by ``:``. Raise InvalidSetting for a relative one."""
    value = env_text(name, "", text, shown, "folders")
    found = []
    for part in [part for part in value.split(os.pathsep) if part] or [str(default)]:
        try:
            if not Path(part).is_absolute():
                raise InvalidSetting(f"{name} must hold absolute folders, not {quoted(part)}.")
            found.append(path(part).resolve())
        except (InvalidInput, OSError, RuntimeError):
            raise InvalidSetting(f"{name} must hold paths of folders, not {quoted(part)}.") from None
    return found


def env_file(name: str, text: str, shown: str, *, is_checked: bool = True) -> Path | None:
    """Return the variable as the absolute path of a file, None if it is empty. Raise InvalidSetting.

    The file may be missing, but no folder, pipe or device may be in its place if it is checked here.
    """
    value = env_text(name, "", text, shown, "file")
    if value and not Path(value).is_absolute():
        raise InvalidSetting(f"{name} must be the absolute path of a file, not {quoted(value)}.")
    try:
        if not value:
            return None
        return file_at(value) if is_checked and os.path.lexists(value) else path(value)
    except (InvalidInput, OSError):
        raise InvalidSetting(f"{name} must be the absolute path of a file, not {quoted(value)}.") from None


def env_address(name: str, default: str, text: str) -> str:
    """Return the variable as an IPv4 address of this machine. Raise InvalidSetting for anything else."""
    value = env_text(name, default, text, kind="address")
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise InvalidSetting(
            f"{name} must be an IPv4 address such as 0.0.0.0, not {quoted(value)}."
        ) from None


def env_hosts(name: str, default: str, text: str) -> list[str]:
    """Return the variable's host names, separated by commas. Raise InvalidSetting for anything else."""
    found = env_text(name, default, text).split(",")
    for host in found:
        if not HOST.fullmatch(host):
            raise InvalidSetting(f"{name} must hold host names such as example.org, not {quoted(host)}.")
    return found


def env_origins(name: str, default: str, text: str, shown: str) -> list[str]:
    """Return the variable's origins, separated by commas. Raise InvalidSetting for anything else."""
    found = env_text(name, default, text, shown, "origins").split(",")
    for origin in found:
        try:
            is_valid = ORIGIN.fullmatch(origin) is not None and urlsplit(origin).port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise InvalidSetting(
                f"{name} must hold origins such as https://example.org, not {quoted(origin)}."
            )
    return found


def env_exact_origins(name: str, text: str) -> list[str]:
    """Return the variable's origins, separated by commas; none if it is empty. Raise InvalidSetting.

    They are written into a content security policy, so no host may be a pattern.
    """
    if not os.environ.get(name):
        env_text(name, "", text, "none", "origins")
        return []
    found = env_origins(name, "", text, "none")
    for origin in found:
        if not EXACT_ORIGIN.fullmatch(origin):
            raise InvalidSetting(
                f"{name} must hold exact origins such as https://example.org, not {quoted(origin)}."
            )
    return found


def env_provider(name: str, text: str) -> str:
    """Return the variable as the address of a provider of logins; empty if it is empty.

    Raise InvalidSetting unless it is https, or on this machine.
    """
    value = env_text(name, "", text, "none", "origins").rstrip("/")
    try:
        parts = urlsplit(value)
        is_local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}
        is_valid = bool(parts.hostname and (is_local or parts.scheme == "https")) and "@" not in parts.netloc
    except ValueError:
        is_valid = False
    if value and not is_valid:
        raise InvalidSetting(f"{name} must be an address that begins with https://, without a password.")
    return value


def need_each_other(*names: str) -> None:
    """Raise InvalidSetting if only some of these variables are set."""
    missing = [name for name in names if not os.environ.get(name)]
    if missing and len(missing) < len(names):
        given = next(name for name in names if name not in missing)
        raise InvalidSetting(f"{given} needs {' and '.join(missing)}.")


def env_teams(name: str, text: str) -> dict[str, str]:
    """Return the variable's teams by group: ``GROUP=TEAM``, separated by ``;``. Raise InvalidSetting."""
    found: dict[str, str] = {}
    for part in filter(str.strip, env_text(name, "", text, "none", "teams").split(";")):
        group, _equals, team = map(str.strip, part.rpartition("="))
        if not group or not 0 < len(team) <= 150 or group in found:
            raise InvalidSetting(f"{name} must hold GROUP=TEAM, separated by ';', each group once.")
        found[group] = team
    return found


def port_of(origin: str) -> int:
    """Return the port of an origin, which may be the default one of its scheme."""
    parts = urlsplit(origin)
    return parts.port or {"http": 80, "https": 443}[parts.scheme]


def env_databases(name: str, text: str) -> dict[str, str]:
    """Return the variable's PostgreSQL connections by name: ``NAME=CONNECTION``, separated by ``;``.

    Raise InvalidSetting for anything else, and for a connection with a password. No message quotes one.
    """
    found: dict[str, str] = {}
    for part in filter(str.strip, re.split(r"[;\n]", env_text(name, "", text, "none", "databases"))):
        alias, _equals, connection = map(str.strip, part.partition("="))
        if not DATABASE_NAME.fullmatch(alias) or not connection or alias in found:
            raise InvalidSetting(f"{name} must hold NAME=CONNECTION, separated by ';', each name once.")
        if error := connection_fault(connection):
            raise InvalidSetting(f"{name}: the connection of {alias} {error}")
        found[alias] = connection
    return found


def env_database(name: str, text: str, shown: str) -> dict[str, str]:
    """Return the variable's PostgreSQL database as parameters of libpq; empty if it is empty.

    Raise InvalidSetting for anything else. The message does not quote it, as it may hold a password.
    """
    value = env_text(name, "", text, shown, "database")
    if not value:
        return {}
    try:
        return parameters_in(value)
    except ValueError as error:
        raise InvalidSetting(f"{name} {error}") from None


def env_bucket(name: str, text: str) -> str:
    """Return the variable as a bucket and a prefix; empty if it is empty.

    Raise InvalidSetting for anything else. The message does not quote it, as it may hold credentials.
    """
    value = env_text(name, "", text, "none", "bucket").rstrip("/")
    if value and not BUCKET.fullmatch(value):
        raise InvalidSetting(f"{name} must be a bucket and a prefix, such as s3://copies/forkline.")
    return value


def env_token(name: str, text: str) -> str:
    """Return the variable as a token that nobody guesses; empty if it is empty.

    Raise InvalidSetting for anything else. The message does not quote it.
    """
    value = env_text(name, "", text, "none", "token")
    if value and not TOKEN.fullmatch(value):
        raise InvalidSetting(f"{name} must have 16 to 200 letters, digits or signs, and no blank.")
    return value


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
    value = env_text(name, default, text, kind="zone")
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):
        raise InvalidSetting(
            f"{name} must be a time zone such as Europe/Paris, not {quoted(value)}."
        ) from None
    return value


def env_folder(name: str, default: Path, text: str, shown: str) -> Path:
    """Return the variable as the path of a folder, which need not exist yet. Raise InvalidSetting.

    ``create_folder`` creates it, once all variables are known to be valid.
    """
    value = env_text(name, str(default), text, shown, "folder")
    try:
        return path(value).resolve()
    except (InvalidInput, OSError, RuntimeError):
        raise InvalidSetting(f"{name} must be the path of a folder, not {quoted(value)}.") from None


def create_folder(name: str, folder: Path) -> list[Path]:
    """Create the folder that a variable names, if it is missing. Return the created folders, innermost first.

    Raise InvalidSetting if it cannot be created or written, and then leave nothing of it; also if ``up``
    serves it and it has disappeared.
    """
    shown = f"{name}: the folder {shortened(str(folder), MAX_SHOWN)}"
    if os.environ.get(SERVED, "").startswith(f"{folder}|") and not folder.exists():
        raise InvalidSetting(f"{shown} is missing. Restore it, or stop Forkline and start it again.")
    try:
        created = _created_folders(folder)
    except OSError as error:
        raise InvalidSetting(f"{shown} cannot be created ({error.strerror}).") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        remove_empty(created)
        raise InvalidSetting(f"{shown} is not writable.")
    return created


def _created_folders(folder: Path) -> list[Path]:
    """Create a private folder and its missing parents. Return what was created, the innermost first.

    Raise OSError, and then leave none of them.
    """
    created: list[Path] = []
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    try:
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
            created.insert(0, one)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        remove_empty(created)
        raise
    return created


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove these folders, the innermost first, as far as they are empty."""
    with suppress(OSError):
        for one in folders:
            one.rmdir()


def refuse_guessable(key: str) -> None:
    """Raise InvalidSetting for a signing key that Django's check security.W009 calls insecure."""
    is_short = len(key) < SECRET_KEY_MIN_LENGTH or len(set(key)) < SECRET_KEY_MIN_UNIQUE_CHARACTERS
    if is_short or key.startswith(SECRET_KEY_INSECURE_PREFIX):
        command = "python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
        raise InvalidSetting(
            f"SECRET_KEY can be guessed, and it signs sessions. Set it to what this prints: {command}"
        )


def signing_key(folder: Path, created: Sequence[Path] = ()) -> str:
    """Return the data folder's signing key, created on first use and readable by its owner only.

    Raise InvalidSetting if it cannot be created or read, and then remove the folders that were just created.
    """
    file = folder / "secret_key"
    try:
        if not file.exists():
            _create_key(file)
        if key := file.read_text():
            return key
        reason = "it is empty"
    except (OSError, ValueError) as error:
        remove_empty(created)
        reason = str(error.strerror) if isinstance(error, OSError) else "it is not a text"
    raise InvalidSetting(f"The key in {shortened(str(file), MAX_SHOWN)} cannot be used ({reason}).")


def _create_key(file: Path) -> None:
    """Write a key. Raise OSError, and then leave no part of it."""
    complete = file.with_name(f"secret_key.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(complete, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(secrets.token_urlsafe(50))
        with suppress(FileExistsError):
            # Linked when complete: another process may be starting too.
            file.hardlink_to(complete)
    finally:
        complete.unlink(missing_ok=True)
