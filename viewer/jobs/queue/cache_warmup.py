"""Delays the jobs of a sweep while its first job warms up the prompt cache."""

from datetime import timedelta

from django.utils import timezone

from viewer.models import Job

# The warm-up only saves time and tokens, so the wait for it is limited.
MAX_SECONDS = 90


def waits_for_cache_warmup(job: Job) -> bool:
    """Whether the first job of the sweep still warms up the cache, for at most ``MAX_SECONDS``."""
    if job.sweep is None or job.kind == Job.Kind.SCORE:
        return False
    first = job.sweep.branches.first()
    if first is None or first.pk == job.pk or first.has_ended:
        return False
    if not first.request.get("options", {}).get("cache_warmup"):
        return False
    if first.started_at and timezone.now() - first.started_at > timedelta(seconds=MAX_SECONDS):
        return False
    return not first.events.filter(kind__in=["cache_warmed", "task_started", "ended"]).exists()
