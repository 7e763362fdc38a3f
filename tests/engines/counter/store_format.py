"""Recognises and reads a counter's checkpoints."""

from datetime import datetime

import msgspec

from viewer.stores.protocol import Entry, Foreign, Outside, Snapshot, StoreFormat


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


class CounterFormat:
    """``<thread>/<id>.json``."""

    engine = "counter"

    def outside_of_file(self, path: str) -> Outside:
        folder, _slash, name = path.rpartition("/")
        return Outside(name.removesuffix(".json"), None, folder)

    def outside_of_row(self, key: str, parent_id: str | None, branch: str) -> Outside:
        return Outside(key, parent_id, branch)

    def snapshot_of(self, body: bytes, entry: Entry, outside: Outside) -> Snapshot:
        try:
            document = _document.decode(body)
        except msgspec.ValidationError:
            raise Foreign("It is not a checkpoint of a counter.") from None
        done = sum(count >= document.limit for count in document.units.values())
        return Snapshot(
            key=entry.key,
            fingerprint=entry.fingerprint,
            size=entry.size,
            checkpoint_id=outside.checkpoint_id,
            parent_id=document.parent,
            branch=outside.branch or "main",
            trigger=document.trigger,
            subject=", ".join(document.units),
            created_at=datetime.fromisoformat(document.at) if document.at else None,
            engine_version=str(document.counter),
            entity="counting",
            name="sheep",
            run_key=document.run,
            tasks_done=done,
            tasks_total=len(document.units),
            event_ids=(),
            calls={},
            body=body,
            engine="counter",
        )


STORE_FORMAT: StoreFormat = CounterFormat()
