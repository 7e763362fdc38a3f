"""The warnings of a job."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from viewer.messages.message import message_from
from viewer.messages.translation import translate
from viewer.models import Job

MAX_WARNINGS = 20


def warnings_of(job: Job) -> list[str]:
    """Return the distinct warnings of the job, in order, as at most ``MAX_WARNINGS`` sentences."""
    # The outcome of a succeeded job already counts the checkpoints that could not be written.
    kinds = ["warning"] if job.status == Job.Status.SUCCEEDED else ["warning", "checkpoint_failed"]
    events = job.events.filter(kind__in=kinds).order_by("seq").values_list("kind", "data")
    sentences = [_sentence(kind, data) for kind, data in events]
    return list(dict.fromkeys(filter(None, sentences)))[:MAX_WARNINGS]


def _sentence(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "checkpoint_failed":
        return _("Writing a checkpoint failed: %(error)s") % {"error": data.get("error") or ""}
    return translate(message_from(data.get("message")))
