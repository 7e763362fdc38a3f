"""What an import and its reader processes send each other: MessagePack behind its length in four bytes.

The reader parses hostile bytes, so its answers are decoded by their types, and never as pickles are.
"""

import select
import time
from collections.abc import Sequence
from typing import IO

import msgspec

from viewer.messages.message import Words
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, Limits, ReadProblem

# How much of the answers is read at once.
CHUNK_BYTES = 1024 * 1024


class Open(msgspec.Struct, array_like=True, tag="open"):
    """The store that everything is read from until ``Close``. A descriptor of its folder comes with it.

    ``name`` is that of an SQLite file in the folder, empty for a folder of JSON files, and ``identity`` says
    which file that is. ``scratch`` is a folder for a copy. ``secrets`` are values to be hidden wherever they
    are; they are never written to disk. ``engines`` are the packages whose formats are tried, in order.
    """

    name: str
    limits: Limits
    identity: str = ""
    scratch: str = ""
    secrets: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()


class List(msgspec.Struct, array_like=True, tag="list"):
    """List all rows of the store."""


class Find(msgspec.Struct, array_like=True, tag="find"):
    """Find the row with this key."""

    key: str


class Batch(msgspec.Struct, array_like=True, tag="read"):
    """Read these entries. Each has an answer, in this order."""

    entries: Sequence[Entry]


class Close(msgspec.Struct, array_like=True, tag="close"):
    """Close the store."""


Message = Open | List | Find | Batch | Close


class Answer(msgspec.Struct, omit_defaults=True):
    """What one entry came to (``read`` or ``fault``), or a part of what was listed, up to ``is_last``.

    ``unreadable`` says why nothing could be listed; ``is_refused``, that it exceeds the limits.
    """

    read: Packed | None = None
    fault: ReadProblem | None = None
    entries: list[Entry] = []
    faults: list[ReadProblem] = []
    is_last: bool = False
    unreadable: Words | None = None
    is_refused: bool = False


encoded = msgspec.msgpack.encode
decode_message = msgspec.msgpack.Decoder(Message).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


def framed(message: Message | Answer) -> bytes:
    """The message behind its length."""
    frame = encoded(message)
    return len(frame).to_bytes(4, "big") + frame


class Answers:
    """The answers that come through a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe = pipe
        self._data = bytearray()
        self._polled = select.poll()
        self._polled.register(pipe, select.POLLIN)

    def next(self, seconds: float) -> Answer | None:
        """The next answer, waited for as long as this; None where none has come.

        Raises EOFError where there will be none, OSError, and msgspec.MsgspecError for one that is none.
        """
        end = time.monotonic() + seconds
        while True:
            size = 4 + int.from_bytes(self._data[:4], "big")
            if len(self._data) >= max(size, 5):
                with memoryview(self._data) as view:
                    answer = _decode_answer(view[4:size])
                del self._data[:size]
                return answer
            left = max(0.0, end - time.monotonic())
            if not self._polled.poll(left * 1000):
                return None
            if not (data := self.pipe.read(CHUNK_BYTES)):
                raise EOFError
            self._data += data
