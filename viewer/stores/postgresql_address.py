"""The name of a PostgreSQL database and the address that libpq connects to. Nothing here connects."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# The prefix of a location's path. The name that the setting gives the database follows.
PREFIX = "postgresql:"
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


def path_of_database(name: str) -> str:
    """The path of the location of the database with this name."""
    return f"{PREFIX}{name}"


def name_in(path: str) -> str:
    """The name in the path of a PostgreSQL location; empty for any other path."""
    return path.removeprefix(PREFIX) if path.startswith(PREFIX) and not is_uri(path) else ""


def is_uri(text: str) -> bool:
    """Whether a text is a connection URI, which may hold a password."""
    return bool(_URI.match(text))


def shown_path(path: object) -> str:
    """A typed path as a message may quote it."""
    return "postgresql://…" if is_uri(str(path)) else str(path)


def libpq_environment() -> dict[str, str]:
    """The variables of this process that libpq reads: for passwords, service files and TLS."""
    return {name: value for name, value in os.environ.items() if _PASSED_VARIABLES.fullmatch(name)}
