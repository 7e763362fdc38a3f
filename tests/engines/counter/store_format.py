"""Recognises and reads a counter's checkpoints."""

from datetime import datetime

import msgspec

from viewer.messages.message import plain_text
from viewer.stores.protocol import Entry, Foreign, RecordedIds, Snapshot, StoreFormat


class Document(msgspec.Struct):
    """A whole checkpoint. ``counter`` is the version of the engine."""

    counter: int
    id: str
    units: dict[str, int]
    parent: str | None = None
    at: str = ""
    trigger: str = ""
    limit: int = 0
    run: str = ""


_document = msgspec.json.Decoder(Document)


class CounterFormat(StoreFormat):
    """``<thread>/<id>.json``."""

    engine = "counter"

    def ids_in_path(self, path: str) -> RecordedIds:
        folder, _slash, name = path.rpartition("/")
        return RecordedIds(name.removesuffix(".json"), None, folder)

    def ids_in_row(self, key: str, parent_id: str | None, branch: str) -> RecordedIds:
        return RecordedIds(key, parent_id, branch)

    def snapshot_of(self, body: bytes, entry: Entry, ids: RecordedIds) -> Snapshot:
        try:
            document = _document.decode(body)
        except msgspec.ValidationError:
            raise Foreign(plain_text("It is not a checkpoint of a counter.")) from None
        done = sum(count >= document.limit for count in document.units.values())
        return Snapshot(
            key=entry.key,
            fingerprint=entry.fingerprint,
            size=entry.size,
            checkpoint_id=ids.checkpoint_id,
            parent_id=document.parent,
            branch=ids.branch or "main",
            trigger=document.trigger,
            subject=", ".join(document.units),
            created_at=datetime.fromisoformat(document.at) if document.at else None,
            engine_version=str(document.counter),
            entity="counting",
            name="sheep",
            run_key=document.run,
            units_done=done,
            units_total=len(document.units),
            body=body,
            engine="counter",
        )


STORE_FORMAT = CounterFormat()
