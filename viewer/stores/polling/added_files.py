"""Find the files that were added to a folder since it was listed."""

from viewer.stores.json_folder import MAX_FOLDER_DEPTH, JsonFolder
from viewer.stores.polling.known_folders import KnownFolders


def added_files(folder: JsonFolder, known: KnownFolders) -> list[str] | None:
    """The keys of files that were added since the folders were listed. Adds them to ``known``.

    None if only a complete listing can show what has changed. ``known`` must not be used again then.
    """
    added: list[str] = []
    pending = list(known)
    try:
        while pending:
            key = pending.pop()
            fingerprint = folder.fingerprint(key)
            if key in known and known.is_unchanged(key, fingerprint):
                continue
            names = known.add(key, fingerprint, folder.names(key))
            if names is None or key.count("/") >= MAX_FOLDER_DEPTH - 1:
                return None
            keys = [f"{key}/{name}" if key else name for name in names]
            pending += [one.rstrip("/") for one in keys if one.endswith("/")]
            added += [one for one in keys if not one.endswith("/")]
    except OSError:
        return None
    return added
