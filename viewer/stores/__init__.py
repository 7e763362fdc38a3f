"""Reads the stores of engines, in reader processes. Here is where a store is: a file, a server or a socket.

Nothing here connects.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies a folder or file, even if it is moved. ``filesystem`` is 0 if unknown."""

    device: int
    inode: int
    filesystem: int = 0

    def __str__(self) -> str:
        return f"{self.device}:{self.inode}:{self.filesystem}"

    @classmethod
    def parse(cls, text: str) -> "Identity | None":
        """The identity that ``str`` turns into this text; None for any other text."""
        with suppress(ValueError, TypeError):
            return cls(*map(int, text.split(":")))
        return None

    def is_recorded_as(self, text: str) -> bool:
        """Whether this text identifies the same object."""
        recorded = Identity.parse(text)
        return recorded is not None and recorded.matches(self)

    def matches(self, other: "Identity") -> bool:
        """Whether both identify the same object. A device number may change when a disk is mounted again."""
        same_filesystem = self.filesystem != 0 and self.filesystem == other.filesystem
        return self.inode == other.inode and (self.device == other.device or same_filesystem)


@dataclass(frozen=True, slots=True)
class DatabaseFile:
    """A file in an open folder, given by a descriptor. A copy may be made in the folder ``scratch``."""

    folder: int
    name: str
    scratch: str | None = None
    # The identity that the file must have, if it is recorded.
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class SaverAddress:
    """The Unix socket of the process that reads a project's checkpoint saver."""

    socket: str


# The prefix of the path of a location that is a project's checkpoint saver.
SAVER_PREFIX = "saver:"


def path_of_saver(folder: str, saver: str) -> str:
    """The path of the location of a saver ``module:name`` of the project in a folder."""
    return f"{SAVER_PREFIX}{folder}:{saver}"


def saver_in(path: str) -> tuple[str, str]:
    """The folder and the ``module:name`` in the path of a saver's location; empty for any other path."""
    if not path.startswith(SAVER_PREFIX):
        return "", ""
    folder, module, name = [*path.removeprefix(SAVER_PREFIX).rsplit(":", 2), "", ""][:3]
    return folder, f"{module}:{name}"


# The prefix of the path of a location that is a database of a server. The name that the setting gives the
# database follows.
DATABASE_PREFIX = "postgresql:"
# A URI that was handled as a path has one slash instead of two.
_URI = re.compile(r"\s*postgres(ql)?:/", re.IGNORECASE)
# libpq's own variables, and those by which it finds its files.
_PASSED_VARIABLES = re.compile(r"PG[A-Z]+|HOME|KRB5\w+|SSL_CERT_\w+")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A database of a server: its name on pages, and the connection string and variables for libpq.

    Only ``name`` may be shown, stored or logged. ``environment`` may hold a password.
    """

    name: str
    conninfo: str = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)

    @property
    def hosts(self) -> list[tuple[str, str]]:
        """The hosts and ports to which libpq connects, which tries several in order.

        A host is empty, or a folder, for a Unix socket. One that only a service file names is not found.
        """
        from psycopg.conninfo import conninfo_to_dict

        given = conninfo_to_dict(self.conninfo)
        names, addresses, ports = (
            str(given.get(name) or self.environment.get(f"PG{name.upper()}") or "").split(",")
            for name in ("host", "hostaddr", "port")
        )
        hosts = [address or name for name, address in zip_longest(names, addresses, fillvalue="")]
        ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
        return [(host, port or "5432") for host, port in zip(hosts, ports, strict=True)]


def path_of_database(name: str) -> str:
    """The path of the location of the database with this name."""
    return f"{DATABASE_PREFIX}{name}"


def name_in(path: str) -> str:
    """The name in the path of a PostgreSQL location; empty for any other path."""
    return path.removeprefix(DATABASE_PREFIX) if path.startswith(DATABASE_PREFIX) and not is_uri(path) else ""


def is_uri(text: str) -> bool:
    """Whether a text is a connection URI, which may hold a password."""
    return bool(_URI.match(text))


def shown_path(path: object) -> str:
    """A typed path as a message may quote it."""
    return "postgresql://…" if is_uri(str(path)) else str(path)


def libpq_environment() -> dict[str, str]:
    """The variables of this process that libpq reads: for passwords, service files and TLS."""
    return {name: value for name, value in os.environ.items() if _PASSED_VARIABLES.fullmatch(name)}
