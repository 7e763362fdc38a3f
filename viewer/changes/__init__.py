"""Notification of changes that any process makes, behind one interface."""

from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.db import connection

from viewer.changes.commits import CommitChanges
from viewer.changes.inotify import file_changes


class Changes(Protocol):
    """What has changed since the last call, or since the notification began."""

    def wait(self, seconds: float = 0) -> bool:
        """Whether something has changed; waits up to ``seconds`` for it. May return True without a change."""

    def close(self) -> None: ...


def changes_of_rows() -> Changes:
    """The commits of other connections to the database. A call that does not wait takes microseconds."""
    return CommitChanges(Path(connection.settings_dict["NAME"]))


def changes_of_data(*folders: Path) -> Changes:
    """Commits, and writes to the files of these folders. Waiting for them uses no processor time."""
    return file_changes([Path(settings.DATA_DIR), *folders])
