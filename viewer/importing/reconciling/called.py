"""The runs that others called."""

from collections.abc import Sequence

from viewer.models import Run


def called_runs(runs: Sequence[int]) -> list[int]:
    """Return the primary keys of the runs that these called, directly or not."""
    found, level = list[int](), runs
    while level := list(Run.objects.filter(parent__in=level).order_by().values_list("pk", flat=True)):
        found += level
    return found
