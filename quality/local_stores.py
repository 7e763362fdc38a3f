"""Open a store in this process. Forkline itself only does that in reader processes."""

from pathlib import Path

from viewer.engines import packages, store_format_in
from viewer.redaction.known_secrets import NONE_KNOWN
from viewer.stores.json_folder import JsonFolder
from viewer.stores.protocol import LocationUnreadable, ReadLimits, Store
from viewer.stores.safe_open import check_is_sqlite, found_at


def store_at(path: Path, limits: ReadLimits | None = None) -> Store:
    """The store at a path, recognised by its content, to be read in this process.

    Raises LocationUnreadable.
    """
    limits = limits or ReadLimits()
    formats = [store_format_in(package) for package in packages()]
    with found_at(path.resolve()) as found:
        if found.is_folder:
            return JsonFolder(path, limits, formats)
        check_is_sqlite(found)
    # Imported only if needed: it loads a second SQLite library, and two in one process release each other's
    # locks.
    from viewer.stores.sqlite_store import SqliteStore

    for store_format in formats:
        store = store_format.indexed_store(path, limits, formats, NONE_KNOWN)
        if store is not None and _opens(store):
            return store
    return SqliteStore(path, limits, formats)


def _opens(store: Store) -> bool:
    try:
        with store:
            return True
    except LocationUnreadable:
        return False
