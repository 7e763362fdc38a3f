"""The environment's variables, as values. One that cannot be ends the program with words, not a traceback."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

# Which folder ``up`` serves (viewer/data_folder/identity.py).
SERVED = "FORKLINE_SERVED"
# Holds the umask of who started the first of our processes, for those that it starts.
UMASK = "FORKLINE_UMASK"


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable that is read: its default, as people are shown it, and what it does."""

    name: str
    default: str
    text: str


# Every variable that was read, in order. docs/reference.md lists them.
SETTINGS: list[Setting] = []


def private_umask() -> int:
    """Have all that this process creates be its owner's alone. Returns the umask that it was started with.

    Runs get that one back: what a project's own code writes is not ours.
    """
    found = os.umask(0o077)
    text = os.environ.setdefault(UMASK, f"{found:03o}")
    return int(text, 8) if text.isascii() and text.isdigit() and not set(text) & set("89") else found


class WrongSetting(SystemExit):
    """A variable holds what it cannot. The message is the last thing that the program says."""


def env_text(name: str, default: str, text: str, shown: str = "") -> str:
    """The variable's value, or the default if it is unset or empty.

    ``text`` says what the variable does. ``shown`` replaces a default that is long or depends on the machine.
    """
    SETTINGS.append(Setting(name, shown or default, text))
    return os.environ.get(name) or default


def env_number(name: str, default: int, text: str, shown: str = "") -> int:
    """The variable as a whole number of one or more. Raises WrongSetting for anything else."""
    value = env_text(name, str(default), text, shown)
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise WrongSetting(f"{name} must be a whole number of 1 or more, not {value!r}.")
    return int(value)


def env_choice(name: str, default: str, choices: tuple[str, ...], text: str) -> str:
    """The variable as one of these words. Raises WrongSetting for anything else."""
    value = env_text(name, default, text).lower()
    if value not in choices:
        raise WrongSetting(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def env_flag(name: str, default: bool, text: str) -> bool:
    """The variable as a yes or no. Raises WrongSetting for anything else."""
    value = env_text(name, "1" if default else "0", text).lower()
    if value not in {"0", "1", "true", "false"}:
        raise WrongSetting(f"{name} must be 0 or 1, not {value!r}.")
    return value in {"1", "true"}


def env_paths(name: str, default: Path, text: str, shown: str) -> list[Path]:
    """The variable's absolute folders, separated by ``:``. Raises WrongSetting for a relative one."""
    value = env_text(name, "", text, shown)
    paths = [Path(part) for part in value.split(os.pathsep) if part] or [default]
    for path in paths:
        if not path.is_absolute():
            raise WrongSetting(f"{name} must hold absolute folders, not {str(path)!r}.")
    return [path.resolve() for path in paths]


def env_zone(name: str, default: str, text: str) -> str:
    """The variable as the name of a time zone. Raises WrongSetting for an unknown one."""
    value = env_text(name, default, text)
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):
        raise WrongSetting(f"{name} must be a time zone such as Europe/Paris, not {value!r}.") from None
    return value


def env_folder(name: str, default: Path, text: str, shown: str) -> Path:
    """The variable as a folder, made where it is not there. Raises WrongSetting where it cannot be, or where
    ``up`` serves it and it has gone since: then it is to be put back.
    """
    folder = Path(env_text(name, str(default), text, shown))
    try:
        folder = folder.resolve()
        if os.environ.get(SERVED, "").startswith(f"{folder}|") and not folder.exists():
            advice = "Put it back, or stop Forkline and start it again"
            raise WrongSetting(f"{name}: the folder {folder} is gone. {advice}.")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WrongSetting(f"{name}: the folder {folder} cannot be made ({reason}).") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WrongSetting(f"{name}: nothing may be written to {folder}.")
    return folder


def kept_secret(folder: Path) -> str:
    """The signing key of this folder, made at first use and readable by its owner alone."""
    path = folder / "secret_key"
    if not path.exists():
        whole = folder / f"secret_key.{secrets.token_hex(8)}"
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            # Whole from the first moment: another process may be starting, too.
            path.hardlink_to(whole)
        except FileExistsError:
            pass
        finally:
            whole.unlink()
    return path.read_text()
