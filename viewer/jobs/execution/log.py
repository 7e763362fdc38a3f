"""A job's log, kept from filling the disk: of a run that prints without end, what it printed last stays."""

from viewer.jobs.spool import LOG
from viewer.models import Job

# A log beyond the first is cut down to the second.
MOST_BYTES, KEPT_BYTES = 16 * 1024 * 1024, 1024 * 1024
CUT = b"[What was printed before this was cut: it was too much to keep.]\n"


def shorten_log(job: Job) -> None:
    """Cut the log of a job under way where it has grown too long. Its child goes on appending to it.

    What the child prints at this very moment may come to stand before what is kept.
    """
    path = job.folder / LOG
    try:
        if path.stat().st_size <= MOST_BYTES:
            return
        # As the child has it: whoever writes, writes at the end of what is there by then.
        with open(path, "a+b") as file:
            file.seek(-KEPT_BYTES, 2)
            last = file.read(KEPT_BYTES)
            file.truncate(0)
            file.write(CUT + (last.partition(b"\n")[2] or last))
    except FileNotFoundError:
        return
