"""The version as the one number that SQLite keeps in a database's head (``sqlite_pragmas.user_version``)."""


def version_number(version: str) -> int:
    """1.2.3 is 1002003."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major * 1_000_000 + minor * 1000 + patch


def version_text(number: int) -> str:
    """Return the version of such a number."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
