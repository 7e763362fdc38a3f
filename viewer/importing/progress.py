"""The progress of a long import, stored with its location, so that a person can cancel it."""

from dataclasses import dataclass

from django.db.models import F

from viewer.models import Location

# Imports of fewer checkpoints take about a second, and show no progress.
MIN_SHOWN = 1_000


@dataclass(slots=True)
class ImportCounts:
    """How far an import is: the files and rows found so far, those that are due, and those that were read."""

    found: int = 0
    due: int = 0
    read: int = 0


class ImportProgress:
    """The progress of an import. ``done`` includes entries that were already stored."""

    def __init__(self, location: Location, total: int, due: int) -> None:
        self._location, self.done = location, total - due
        is_requested = location.import_state == Location.ImportState.REQUESTED
        self._is_shown = due >= MIN_SHOWN or is_requested
        if self._is_shown:
            # A request that was cancelled in the meantime stays cancelled.
            if not is_requested:
                location.request_import()
            Location.objects.filter(pk=location.pk).update(import_done=self.done, import_total=total)

    def add(self, count: int) -> bool:
        """Record that this many more are stored. Return False if a person cancelled the import."""
        self.done += count
        if not self._is_shown:
            return True
        rows = Location.objects.filter(pk=self._location.pk)
        # Open pages refresh.
        rows.update(import_done=self.done, revision=F("revision") + 1)
        return rows.filter(import_state=Location.ImportState.REQUESTED).exists()
