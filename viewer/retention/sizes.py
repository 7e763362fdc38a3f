"""The sizes of what the data folder holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db.models import Sum
from django.db.models.functions import Length
from django.utils.translation import gettext as _

from viewer.jobs.storage import storage_of
from viewer.models import Job, JobEvent, StoredCopy
from viewer.retention.drafts import stored_drafts


@dataclass(frozen=True, slots=True)
class Stored:
    """One kind of data: how many there are, None if they are not counted, and their size in bytes."""

    label: str
    count: int | None
    size: int


def sizes() -> Iterator[Stored]:
    """What is stored, the database as a whole first."""
    database = Path(str(settings.DATABASES["default"]["NAME"]))
    parts = [database, *(Path(f"{database}{ending}") for ending in ("-wal", "-shm"))]
    yield Stored(_("Database"), None, sum(part.stat().st_size for part in parts if part.exists()))
    stored = StoredCopy.objects.exclude(data=b"")
    copies = stored.aggregate(size=Sum(Length("data") + Length("event_ids")))["size"]
    yield Stored(_("Stored copies of checkpoints"), stored.count(), copies or 0)
    events = JobEvent.objects.aggregate(size=Sum(Length("data")))["size"]
    yield Stored(_("Events of jobs"), JobEvent.objects.count(), events or 0)
    jobs = Job.objects.only("pk")
    yield Stored(_("Jobs, with their folders"), jobs.count(), sum(map(_folder_size, jobs)))
    drafts = stored_drafts()
    yield Stored(_("Drafts, within these folders"), len(drafts), sum(draft.size for draft in drafts))


def _folder_size(job: Job) -> int:
    try:
        return storage_of(job).size()
    except OSError:
        return 0
