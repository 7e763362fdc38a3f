"""What a job's run warned about."""

from viewer.models import Job
from viewer.wording import told
from viewer.words import words_from

MAX_WARNINGS = 20


def warnings_of(job: Job) -> list[str]:
    """Each warning of the run once, in the order they came, as sentences; at most ``MAX_WARNINGS``."""
    events = job.events.filter(kind="warning").order_by("seq").values_list("data", flat=True)
    sentences = [told(words_from(data.get("words"), str(data.get("message") or ""))) for data in events]
    return list(dict.fromkeys(filter(None, sentences)))[:MAX_WARNINGS]
