"""Redacted parts of a checkpoint's stored copy that a run would send to a model."""

from collections.abc import Sequence
from hashlib import sha256

from viewer.engines import engine_of
from viewer.engines.planning.plan import Edits, Step
from viewer.engines.protocol import Contents
from viewer.launching.requests.values import has_redacted_part
from viewer.messages.translation import translate


def find_redacted_parts(contents: Contents, edits: Edits, steps: Sequence[Step]) -> list[str]:
    """A label for each redacted part that the run reads and no edit replaces.

    The original checkpoint contains these values; the stored copy of a pruned one does not.
    """
    values = engine_of(contents).values_read(contents, edits, steps)
    return [translate(one.label) for one in values if has_redacted_part(one.value)]


def digest_of(parts: Sequence[str]) -> str:
    """A digest of a list of redacted parts, by which a person accepts exactly those."""
    return sha256("\n".join(parts).encode()).hexdigest()[:16]
