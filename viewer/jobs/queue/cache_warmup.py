"""Which jobs of a group wait while its first one warms the provider's prompt cache for all."""

from datetime import timedelta

from django.utils import timezone

from viewer.models import Job

# A group waits no longer for what is only there to make it faster.
MAX_SECONDS = 90


def waits_for_cache_warmup(job: Job) -> bool:
    """Whether the group's first job still warms the cache: it has not said so, nor ended, nor takes long."""
    if job.sweep_id is None:
        return False
    first = Job.objects.filter(sweep=job.sweep_id).order_by("created_at").first()
    if first is None or first.pk == job.pk or first.has_ended:
        return False
    if not first.request.get("options", {}).get("cache_warmup"):
        return False
    if first.started_at and timezone.now() - first.started_at > timedelta(seconds=MAX_SECONDS):
        return False
    return not first.events.filter(kind__in=["cache_warmed", "task_started", "ended"]).exists()
