"""What stays on disk of a job that has ended: its log, without secrets. The rows hold the rest."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from viewer.data_folder.write_ahead_log import clear_log
from viewer.jobs.execution.event_rows import Redactor
from viewer.jobs.spool import ANSWER, EVENTS, LOG, REQUEST, SCRATCH, STOP, STORED
from viewer.models import Job

# Secrets are looked for in so much at once, in whole lines, as some have several.
CHUNK_BYTES = 1024 * 1024


def clean_up(job: Job, hide: Redactor) -> None:
    """Called once nothing of the job runs any more, and all that it wrote is stored."""
    log = job.folder / LOG
    if log.exists():
        clean = log.with_suffix(".clean")
        clean.touch(mode=0o600)
        with open(clean, "w", encoding="utf-8") as file:
            file.writelines(hide(piece) for piece in chunks_of(log))
        clean.replace(log)
    for name in (EVENTS, REQUEST, STOP, STORED):
        (job.folder / name).unlink(missing_ok=True)
    for answer in job.folder.glob(ANSWER.format(number="*") + "*"):
        answer.unlink(missing_ok=True)
    # A child that was killed left the checkpoint's copy there, with its secrets.
    shutil.rmtree(job.folder / SCRATCH, ignore_errors=True)
    # What a person typed has been taken out of the rows by now.
    clear_log()


def chunks_of(path: Path) -> Iterator[str]:
    """The whole text, in pieces of whole lines; what is no text is replaced."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        while lines := file.readlines(CHUNK_BYTES):
            yield "".join(lines)
