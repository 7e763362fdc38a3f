"""What the stored copy of a checkpoint lacks because it was hidden, where a run would send it."""

from collections.abc import Sequence
from hashlib import sha256

from viewer.engines import engine_of
from viewer.engines.plan import Edits, Step
from viewer.engines.protocol import Contents
from viewer.launching.values import has_redacted_part
from viewer.messages import labels


def hidden_in(contents: Contents, edits: Edits, steps: Sequence[Step]) -> list[str]:
    """Each place, in words, whose hidden part a run would be given as it reads here; none that was edited.

    A location's own checkpoint still holds these values; the copy that is kept of a pruned one does not.
    """
    places = engine_of(contents).hidden_places(contents, edits, steps)
    return [labels.told(place.label) for place in places if has_redacted_part(place.value)]


def mark_of(hidden: Sequence[str]) -> str:
    """Tells one list of hidden places from another: an agreement holds for those that were named."""
    return sha256("\n".join(hidden).encode()).hexdigest()[:16]
