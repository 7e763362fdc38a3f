"""Recognises and reads CrewAI's checkpoints. Used in a reader process."""

import msgspec

from viewer.engines.crewai.format import structs, summary
from viewer.redaction.marker import MARKER
from viewer.stores.errors import Foreign
from viewer.stores.protocol import Entry, RecordedIds, Snapshot, StoreFormat

FIRST_BRANCH = "main"


class CrewAIFormat(StoreFormat):
    """Reads files named ``<branch>/<id>_p-<parent>.json``, and rows with such an id."""

    engine = "crewai"

    def ids_in_path(self, path: str) -> RecordedIds:
        """The id and parent in the file's name, and the branch in the folder's path."""
        folder, _slash, name = path.rpartition("/")
        checkpoint_id, parent_id = structs.id_and_parent(name.removesuffix(".json"))
        return RecordedIds(checkpoint_id, parent_id, folder)

    def ids_in_row(self, key: str, parent_id: str | None, branch: str) -> RecordedIds:
        """The id in the key, and the row's own parent and branch."""
        checkpoint_id, _parent_id = structs.id_and_parent(key)
        return RecordedIds(checkpoint_id, parent_id, branch)

    def snapshot_of(self, body: bytes, entry: Entry, ids: RecordedIds) -> Snapshot:
        """The snapshot of a redacted JSON text. Raises Foreign, or msgspec.DecodeError."""
        try:
            document = structs.document_of(body)
        except msgspec.ValidationError:
            raise Foreign("store.json_without_entities") from None
        return _snapshot(document, body, entry, ids)


def _snapshot(document: structs.Document, body: bytes, entry: Entry, ids: RecordedIds) -> Snapshot:
    root = summary.root_of(document.entities)
    done, total = summary.progress_of(root, document)
    trigger = summary.trigger_of(document)
    return Snapshot(
        key=entry.key,
        fingerprint=entry.fingerprint,
        size=entry.size,
        checkpoint_id=ids.checkpoint_id,
        parent_id=_inside_or_outside(document.parent_id, ids.parent_id),
        branch=_inside_or_outside(document.branch, ids.branch) or FIRST_BRANCH,
        trigger=trigger,
        subject=summary.subject_of(document, trigger),
        created_at=structs.created_at(ids.checkpoint_id),
        engine_version=document.crewai_version or "",
        entity=summary.entity_type_of(root),
        name=summary.name_of(root, document),
        run_key=summary.run_key_of(root, document),
        units_done=done,
        units_total=total,
        event_ids=tuple(document.event_record.nodes),
        calls=summary.calls_of(document),
        sessions=summary.sessions_of(document),
        body=body,
        engine="crewai",
    )


def _inside_or_outside(inside: str | None, outside: str | None) -> str | None:
    """Return the value inside the checkpoint; if it is missing or redacted, that in the name or row."""
    return outside if outside and (not inside or MARKER in inside) else inside


STORE_FORMAT = CrewAIFormat()
