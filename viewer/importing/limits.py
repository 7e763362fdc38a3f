"""The bounds that the settings give."""

from django.conf import settings

from viewer.providers.snapshot import Limits


def limits() -> Limits:
    """How large, deep and slow one checkpoint may be."""
    return Limits(
        most_bytes=settings.CHECKPOINT_MOST_BYTES,
        most_depth=settings.CHECKPOINT_MOST_DEPTH,
        most_seconds=settings.CHECKPOINT_MOST_SECONDS,
    )
