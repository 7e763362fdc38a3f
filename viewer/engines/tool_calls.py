"""Recorded calls of tools, and what a person chooses for the tools of a run."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

_SIGNS = re.compile(r"[\W_]+")


class ToolChoice(StrEnum):
    """What happens when a run calls a tool. ``viewer/launching/labels.py`` has the labels."""

    CALL = "call"  # it is called
    ASK = "ask"  # a person is asked each time, and may edit the arguments
    RECORDED = "recorded"  # it is answered with the recorded result, or a person is asked if there is none
    REFUSE = "refuse"  # it is not called, and the run continues with an error


@dataclass(frozen=True, slots=True)
class RecordedToolCall:
    """A call that a checkpoint records. ``unit`` is the id of the unit that made it.

    ``arguments`` are a mapping, or the text that the model wrote. ``result`` is None if none is recorded.
    """

    unit: str
    tool: str
    arguments: Any
    at: datetime | None
    result: str | None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RecordedTools:
    """The calls of the units that run, oldest first, and the tools that they may call without a record.

    ``is_known`` is false if the checkpoints that may record calls could not be read.
    """

    calls: Sequence[RecordedToolCall] = ()
    others: Sequence[str] = ()
    is_known: bool = True


def plain_name(tool: str) -> str:
    """What is equal for a tool's name and the name that events have, which the engine gives to models.

    A runner compares names in the same way (``forkline_runner.recorded``).
    """
    letters = (one for one in unicodedata.normalize("NFKD", tool) if not unicodedata.combining(one))
    return _SIGNS.sub("", "".join(letters).casefold())
