"""A run as an indexed store lists it."""

from dataclasses import dataclass
from datetime import datetime

from viewer.stores.model_calls import ModelCall


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """A run as an indexed store lists it, redacted. ``head`` is the id of its newest checkpoint.

    ``parent_key`` and ``called_from`` are the run and checkpoint that called it, if any did. ``count`` is the
    number of its checkpoints; 0 if that is not known. ``calls`` and ``seconds`` are its model calls, and how
    long it worked; None if they have not been read. ``copies`` are the source keys of its first and its
    newest checkpoint, which say what the run is about; none if that is not known.
    """

    key: str
    head: str
    last_at: datetime | None = None
    namespace: str = ""
    name: str = ""
    parent_key: str = ""
    called_from: str = ""
    status: str = ""
    is_forked: bool = False
    count: int = 0
    first_at: datetime | None = None
    calls: list[ModelCall] | None = None
    seconds: float | None = None
    copies: tuple[str, ...] = ()
