"""Launch options: when a job may start, and the limits on what it uses."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.crypto import salted_hmac

from viewer.models import Job


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """``start_at`` None starts it as soon as a worker is free. ``limits``: see models/jobs/limits.py."""

    start_at: datetime | None = None
    limits: Mapping[str, float] = field(default_factory=dict)


def request_digest(request: Mapping[str, Any], options: LaunchOptions) -> str:
    """A digest that identifies the request and reveals nothing of it."""
    content = json.dumps([request, str(options.start_at), dict(options.limits)], sort_keys=True, default=str)
    return salted_hmac("viewer.jobs.asked", content, algorithm="sha256").hexdigest()


def is_same_request(job: Job, request: Mapping[str, Any], options: LaunchOptions) -> bool:
    """Whether the job was stored for this request, as when a form is sent twice."""
    return job.request_digest == request_digest(request, options)
