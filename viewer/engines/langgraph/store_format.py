"""Recognises and reads LangGraph's checkpoints. Used in a reader process."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from viewer.engines.langgraph import identifiers
from viewer.engines.langgraph.threads.rows import ENGINE, FIRST_BRANCH, KIND, SOURCES, Metadata
from viewer.redaction.known_secrets import KnownSecrets
from viewer.stores import DatabaseFile, SaverAddress, ServerAddress, protocol


class Document(msgspec.Struct):
    """The JSON that ``LangGraphStore.read`` returns, after redaction."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    checkpoint: msgspec.Raw
    writes: list[msgspec.Raw]
    metadata: msgspec.Raw
    parent_checkpoint_id: str | None = None


_document = msgspec.json.Decoder(Document)
_metadata = msgspec.json.Decoder(Metadata)


class LangGraphFormat(protocol.StoreFormat):
    """Reads the tables of a checkpoint saver. LangGraph writes no JSON files."""

    engine = ENGINE
    is_indexed = True

    def ids_in_path(self, path: str) -> protocol.RecordedIds:
        """The whole path as the id: LangGraph writes no files."""
        return protocol.RecordedIds(path, None, "")

    def ids_in_row(self, row_id: str, parent_id: str | None, branch: str) -> protocol.RecordedIds:
        """The checkpoint id at the end of the source key, and the row's own parent and branch."""
        return protocol.RecordedIds(row_id.rpartition("/")[2], parent_id, branch)

    def indexed_store(
        self,
        database: Path | DatabaseFile | ServerAddress | SaverAddress,
        limits: protocol.ReadLimits,
        formats: Sequence[protocol.StoreFormat],
        known: KnownSecrets,
    ) -> protocol.IndexedStore:
        """The tables of a checkpoint saver in a database, or a project's saver itself."""
        # It imports a database library, which only a reader process may do.
        from viewer.engines.langgraph.threads.store import LangGraphStore, tables_in

        return LangGraphStore(tables_in(database, limits, known), formats, known)

    def snapshot_of(self, body: bytes, entry: protocol.Entry, ids: protocol.RecordedIds) -> protocol.Snapshot:
        """The snapshot of a redacted JSON text. Raises Foreign, or msgspec.DecodeError."""
        try:
            document = _document.decode(body)
        except msgspec.ValidationError:
            raise protocol.Foreign("langgraph.not_a_checkpoint") from None
        try:
            metadata = _metadata.decode(document.metadata)
        except msgspec.ValidationError:
            metadata = Metadata()
        return protocol.Snapshot(
            key=entry.key,
            fingerprint=entry.fingerprint,
            size=entry.size,
            checkpoint_id=ids.checkpoint_id,
            parent_id=ids.parent_id,
            branch=FIRST_BRANCH,
            trigger=metadata.source if metadata.source in SOURCES else "",
            created_at=identifiers.created_at(ids.checkpoint_id),
            entity=KIND,
            run_key=identifiers.run_key(document.thread_id, document.checkpoint_ns),
            body=body,
            engine=ENGINE,
            step=metadata.step,
        )


STORE_FORMAT = LangGraphFormat()
