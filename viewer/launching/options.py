"""On what terms a job runs: when it may start, and how much it may use."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.formats import date_format

from viewer.models import Job


@dataclass(frozen=True, slots=True)
class Terms:
    """``start_at`` None: as soon as it can. ``limits``: see viewer/models/limits.py."""

    start_at: datetime | None = None
    limits: Mapping[str, float] = field(default_factory=dict)


def mark_of_asked(request: Mapping[str, Any], terms: Terms) -> str:
    """Tells what was asked for from anything else, without holding any of it."""
    told = json.dumps([request, str(terms.start_at), dict(terms.limits)], sort_keys=True, default=str)
    return salted_hmac("viewer.jobs.asked", told, algorithm="sha256").hexdigest()


def asks_for(job: Job, request: Mapping[str, Any], terms: Terms) -> bool:
    """Whether this is what the job was made for: the same form, sent again."""
    return job.request_digest == mark_of_asked(request, terms)


def moment_words(moment: datetime) -> str:
    """When that is by the server's clock: a moment of today as its time, any other with its day."""
    local = timezone.localtime(moment)
    return date_format(local, "H:i" if local.date() == timezone.localdate() else "j M Y, H:i")
