"""Which paths a row can store."""

from pathlib import Path


def is_storable(path: Path) -> bool:
    """Whether a row can store the path and a page can show it: all of its names are UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
