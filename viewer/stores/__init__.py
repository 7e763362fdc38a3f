"""What is on disk: checkpoints as their engine left them, read and never changed."""

from pathlib import Path

from viewer.engines import packages, store_format_in
from viewer.stores.json_folder import JsonFolder
from viewer.stores.location_reader import check_file
from viewer.stores.protocol import Limits, Store
from viewer.stores.safe_open import found_at


def store_at(path: Path, limits: Limits | None = None) -> Store:
    """The provider for what stands there, told by its content, to be read in this process.

    Raises LocationUnreadable.
    """
    limits = limits or Limits()
    formats = [store_format_in(package) for package in packages()]
    with found_at(path.resolve()) as found:
        if found.is_folder:
            return JsonFolder(path, limits, formats)
        check_file(found)
    # Imported only where it is used: it brings an SQLite of its own, and two of them in one process would end
    # each other's locks.
    from viewer.stores.sqlite import SqliteStore

    return SqliteStore(path, limits, formats)
