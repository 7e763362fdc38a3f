"""Where a branch was forked."""

from viewer.models import Checkpoint


def origin_of(checkpoint: Checkpoint) -> Checkpoint | None:
    """Return the nearest ancestor on another branch; None if there is none."""
    parents = dict(checkpoint.run.checkpoints.filter(branch=checkpoint.branch).values_list("pk", "parent_id"))
    seen: set[int] = set()
    at: int | None = checkpoint.pk
    while at in parents and at not in seen:
        seen.add(at)
        at = parents[at]
    if at is None or at in seen:
        return None
    return Checkpoint.objects.select_related("stored_copy", "location").filter(pk=at).first()
