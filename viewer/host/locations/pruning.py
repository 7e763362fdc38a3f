"""Delete checkpoints at their source, from an exact list that a person has confirmed."""

import hashlib
import logging
import os
import sqlite3
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from viewer.data_folder.database_file import clear_log
from viewer.host.locations.importing import import_location
from viewer.host.locations.search_index import remove_checkpoints
from viewer.host.locations.sources import address_of, import_lock
from viewer.host.reading.location_reader import LocationAddress
from viewer.host_requests import KeptEntry, Pruned, PruneRefused, PruneRules
from viewer.messages.message import UserMessage
from viewer.models import Annotation, Checkpoint, Location, PreflightCheck, StoredCopy
from viewer.models.rows import in_slices
from viewer.records import bucket
from viewer.records.annotations import commented_ids
from viewer.records.audit import Action, Audited, Result, record
from viewer.records.collections import collected_ids
from viewer.records.locations import is_indexed, keeps_files
from viewer.records.run_rows import keyed_digest
from viewer.redaction import MARKER
from viewer.sqlite_pragmas import COLUMNS_OF_TABLE
from viewer.stores.json_folder import fingerprint_of
from viewer.stores.protocol import (
    DIGESTED_COLUMNS,
    MAX_SHORT_BYTES,
    Entry,
    LocationReplaced,
    LocationUnreadable,
    row_digest,
)
from viewer.stores.safe_open import Found, found_at, identity_of, open_folder

# What a person chooses to prune by.


def holds(rules: PruneRules, row: Checkpoint, index: int, now: datetime) -> bool:
    """Whether a checkpoint is to be pruned. ``index`` is 0 for the newest of its branch in its run."""
    if rules.is_empty:
        return False
    if rules.branch and row.branch != rules.branch:
        return False
    if rules.thread and row.run.key.partition(" ")[0] != rules.thread != row.run.key:
        return False
    if rules.latest is not None and index < rules.latest:
        return False
    if rules.days is None:
        return True
    return row.created_at is not None and now - row.created_at >= timedelta(days=rules.days)


# The exact list of what would be deleted, and what is protected.


class Protected(StrEnum):
    """Why a checkpoint stays although the rules hold for it."""

    FORK_POINT = "fork_point"
    ANNOTATED = "annotated"
    NEWEST = "newest"
    IN_USE = "in_use"
    NO_COPY = "no_copy"
    HIDDEN_NAME = "hidden_name"
    # Of LangGraph (viewer/runners/forkline_langgraph/pruning.py).
    NEEDED = "needed"
    RECENT = "recent"
    NOT_LISTED = "not_listed"


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would be deleted of a location, oldest first, and how many checkpoints stay for each reason.

    With ``deletes_copies``, the stored copies of ``rows`` are deleted, too, and those of ``pruned``, which
    are no longer at their source.
    """

    location: Location
    rows: Sequence[Checkpoint] = ()
    protected: dict[Protected, int] = field(default_factory=dict)
    pruned: Sequence[Checkpoint] = ()
    deletes_copies: bool = False

    @property
    def digest(self) -> str:
        """A text that changes with the location, the list, or the bytes of what is listed."""
        lines = [self.location.path, self.location.identity]
        lines += [f"{row.source_key}\0{row.fingerprint}" for row in self.rows]
        if self.deletes_copies:
            # No key has an empty line: it separates what is deleted at its source from copies alone.
            lines += ["", "copies", *(f"{row.source_key}\0{row.fingerprint}" for row in self.pruned)]
        return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(row.size for row in self.rows)

    @property
    def entries(self) -> list[Entry]:
        return [Entry(row.source_key, row.fingerprint, row.size) for row in self.rows]


def is_prunable(location: Location) -> bool:
    """Whether checkpoints of this location can be deleted at their source.

    Of others, only the stored copies of checkpoints that are no longer there can be deleted.
    """
    return keeps_files(location) and not is_gone(location)


def is_gone(location: Location) -> bool:
    """Whether the file or folder of a location no longer exists. False if that cannot be known."""
    if not location.is_local:
        return False
    try:
        Path(location.path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def states_without_source(location: Location) -> list[Checkpoint.State]:
    """The states of checkpoints that are no longer at their source, of which there may be a stored copy."""
    return [Checkpoint.State.PRUNED, *([Checkpoint.State.PRESENT] if is_gone(location) else [])]


def prune_blocker(location: Location, rules: PruneRules) -> UserMessage | None:
    """Why nothing of a location can be pruned by these rules; None if it can."""
    gone = is_gone(location)
    if gone and not rules.copies:
        return UserMessage("prune.gone")
    if rules.thread or rules.whole_threads:
        return UserMessage("prune.no_threads")
    if not is_prunable(location) and not rules.copies:
        return UserMessage("prune.not_permitted" if is_indexed(location) else "prune.engine_not_supported")
    return common_blocker(location, is_gone=gone)


def common_blocker(location: Location, *, is_gone: bool = False) -> UserMessage | None:
    """Why nothing of a location can be pruned by any rules; None if it can."""
    if not is_gone and (location.read_error or (location.is_local and not location.identity)):
        return UserMessage("prune.unreadable")
    if location.jobs.unfinished().exists():
        return UserMessage("prune.job_unfinished")
    return None


def plan_prune(location: Location, rules: PruneRules) -> PrunePlan:
    """What these rules would delete of a location, as its rows have it. Empty without a rule."""
    if rules.is_empty:
        return PrunePlan(location)
    now, newer = timezone.now(), defaultdict[tuple[int, str], int](int)
    rows, pruned, stays = list[Checkpoint](), list[Checkpoint](), defaultdict[Protected, int](int)
    used, forked, written_about = in_use(location), _fork_points(location), _annotated(location)
    gone = is_gone(location)
    copies = set(
        location.checkpoints.filter(stored_copy__isnull=False).order_by().values_list("pk", flat=True)
    )
    sourceless = states_without_source(location) if rules.copies else []
    states = {*sourceless, *([Checkpoint.State.PRESENT] if is_prunable(location) else [])}
    for row in location.checkpoints.filter(state__in=states).select_related("run").order_by("run", "-row"):
        index = newer[row.run_id, row.branch]
        newer[row.run_id, row.branch] += not row.is_pruned
        if row.is_scratch or not holds(rules, row, index, now) or (gone and row.pk not in copies):
            continue
        reason = None
        if written_about & _subjects(row):
            reason = Protected.ANNOTATED
        elif not gone:
            # From the checkpoints of a location that is gone, nothing continues.
            reason = _why_protected(row, rules, forked, used, copies)
        if reason is None:
            (pruned if row.state in sourceless else rows).append(row)
        else:
            stays[reason] += 1
    for found in (rows, pruned):
        found.sort(key=lambda row: (row.created_at or now, row.source_key))
    return PrunePlan(location, rows, dict(stays), pruned, rules.copies)


def _why_protected(
    row: Checkpoint, rules: PruneRules, forked: set[int], used: set[int], copies: set[int]
) -> Protected | None:
    if row.pk in forked:
        return Protected.FORK_POINT
    if row.pk in used:
        return Protected.IN_USE
    if row.is_branch_head and not rules.branch:
        return Protected.NEWEST
    # Without a stored copy, deleting it would lose it.
    if row.pk not in copies:
        return Protected.NO_COPY
    return Protected.HIDDEN_NAME if MARKER in row.source_key else None


def _annotated(location: Location) -> set[tuple[str, str, str]]:
    """What people wrote about or collected: run, branch and checkpoint, empty where it does not apply."""
    found = Annotation.objects.filter(location_uid=location.uid)
    return {
        *((one.run_key, one.branch, one.checkpoint_id) for one in found if not one.is_empty),
        *(("", "", checkpoint) for checkpoint in collected_ids(location)),
        *((run, "", checkpoint) for run, checkpoint in commented_ids(location)),
    }


def _subjects(row: Checkpoint) -> set[tuple[str, str, str]]:
    """What protects a checkpoint if somebody wrote about it; for the newest of a branch, that branch too."""
    subjects = {("", "", row.checkpoint_id)}
    if row.is_branch_head:
        subjects |= {(row.run.key, row.branch, ""), (row.run.key, "", "")}
    return subjects


def _fork_points(location: Location) -> set[int]:
    """The checkpoints from which more than one branch or checkpoint continues."""
    children, found = Counter[int](), set[int]()
    linked = location.checkpoints.exclude(parent=None).order_by()
    for parent, branch, branch_of_parent in linked.values_list("parent_id", "branch", "parent__branch"):
        children[parent] += 1
        if children[parent] > 1 or branch != branch_of_parent:
            found.add(parent)
    return found


def in_use(location: Location) -> set[int]:
    """The checkpoints that jobs started from, or that a sweep compares."""
    used = location.checkpoints.filter(Q(jobs__isnull=False) | Q(sweeps__isnull=False))
    return set(used.order_by().values_list("pk", flat=True))


# Delete at the source: exactly what was listed, and only if it is unchanged.
#
# Nothing else but a runner changes a location. A file is deleted through descriptors that follow no link,
# if it is still the regular file that was listed. Rows are deleted in one transaction, if each of them still
# has the contents that were read when the list was made. Nothing is renamed and no file is created, so a
# process that is killed leaves checkpoints either deleted or as they were.

TABLE = "checkpoints"
# Whether an entry was read from a row with this digest (``row_digest``).
IsRecorded = Callable[[Entry, str], bool]


class RowChanged(LocationUnreadable):
    """A row is not the one that was listed, so no row was deleted. ``key`` is its entry's."""

    def __init__(self, key: str) -> None:
        super().__init__("prune.row_changed", key=key)
        self.key = key


def delete_entries(
    address: LocationAddress, entries: Sequence[Entry], is_recorded: IsRecorded
) -> list[KeptEntry]:
    """Delete these checkpoints of a folder or an SQLite file. Returns those that were not deleted.

    A row is deleted only if ``is_recorded`` accepts its digest. Raises LocationUnreadable; nothing was
    deleted then.
    """
    with found_at(address.path, address.roots) as found:
        if not found.identity.is_recorded_as(address.identity):
            raise LocationReplaced("store.replaced")
        if found.is_folder:
            return list(_delete_files(found.folder, entries))
        _delete_rows(address.path, found, entries, is_recorded)
        return []


def _delete_files(root: int, entries: Sequence[Entry]) -> Iterator[KeptEntry]:
    for entry in entries:
        try:
            reason = _delete_file(root, entry)
        except OSError as error:
            reason = UserMessage("prune.failed", {"why": str(error.strerror)})
        if reason is not None:
            yield KeptEntry(entry.key, reason)


def _delete_file(root: int, entry: Entry) -> UserMessage | None:
    """Delete one file. Returns None, or why it was not deleted.

    Raises OSError, also if the path contains a link.
    """
    *folders, name = entry.real_key.split("/")
    if not name.endswith(".json") or any(part in ("", ".", "..") for part in (*folders, name)):
        return UserMessage("prune.not_a_checkpoint")
    with ExitStack() as opened:
        folder = root
        for part in folders:
            folder = open_folder(part, folder)
            opened.callback(os.close, folder)
        # The fingerprint holds the inode and the time of the last change of either content or name.
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or fingerprint_of(status) != entry.fingerprint:
            return UserMessage("prune.changed")
        os.unlink(name, dir_fd=folder)
    return None


def _delete_rows(path: Path, found: Found, entries: Sequence[Entry], is_recorded: IsRecorded) -> None:
    """Delete rows in one transaction, all or none. Raises LocationUnreadable."""
    # A path may have bytes that are not UTF-8.
    address = f"file:{quote(os.fsencode(path))}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=5, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            # Checked after SQLite has opened the file, so that it is the file that was found.
            if not identity_of(found.folder, path.lstat()).matches(found.identity):
                raise LocationReplaced("store.replaced")
            _check_table(database)
            select = _select_row(database)
            for entry in entries:
                if not is_recorded(entry, _digest_of_row(database, select, entry)):
                    raise RowChanged(entry.key)
                _delete_row(database, entry)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        # Closing the connection has rolled the transaction back.
        raise LocationUnreadable("prune.database_failed", why=str(error)) from None
    except OSError as error:
        raise LocationUnreadable("prune.database_failed", why=str(error.strerror)) from None


def _check_table(database: sqlite3.Connection) -> None:
    """Raise LocationUnreadable for anything but a plain table without triggers."""
    rows = database.execute("SELECT type, sql FROM sqlite_master WHERE tbl_name = ?", (TABLE,)).fetchall()
    tables = [str(sql).upper() for kind, sql in rows if kind == "table"]
    has_triggers = any(kind == "trigger" for kind, _sql in rows)
    if len(tables) != 1 or has_triggers or tables[0].startswith("CREATE VIRTUAL"):
        raise LocationUnreadable("prune.not_a_plain_table")


def _select_row(database: sqlite3.Connection) -> str:
    """The statement that reads what the digest of a row is made of, as ``SqliteStore`` reads it."""
    found = database.execute(COLUMNS_OF_TABLE, (TABLE,)).fetchall()
    plain = {bytes(name).decode(errors="replace") for name, hidden in found if not hidden}
    columns = ", ".join(_short_text(column) if column in plain else "NULL" for column in DIGESTED_COLUMNS)
    return (
        f"SELECT typeof(data), CAST(data AS BLOB), {columns} FROM {TABLE}"  # noqa: S608
        " WHERE rowid = ? AND id = ?"
    )


def _short_text(column: str) -> str:
    """As ``sqlite_store.short_text``, without ``octet_length``, which older versions of SQLite lack."""
    return (
        f"CASE WHEN length(CAST({column} AS BLOB)) > {MAX_SHORT_BYTES} THEN NULL "
        f"WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) "
        f"WHEN typeof({column}) = 'blob' THEN NULL ELSE +{column} END"
    )


def _digest_of_row(database: sqlite3.Connection, select: str, entry: Entry) -> str:
    """The digest of the row that was listed. Raises RowChanged if there is none."""
    row = database.execute(select, _row_of(entry)).fetchone()
    if row is None or row[1] is None:
        raise RowChanged(entry.key)
    kind, data, *columns = row
    return row_digest(kind, data, columns)


def _delete_row(database: sqlite3.Connection, entry: Entry) -> None:
    """Delete the row that was listed. Raises RowChanged if there is none."""
    deleted = database.execute(f"DELETE FROM {TABLE} WHERE rowid = ? AND id = ?", _row_of(entry))  # noqa: S608
    if deleted.rowcount != 1:
        raise RowChanged(entry.key)


def _row_of(entry: Entry) -> tuple[int, str]:
    """The rowid and the id of the row that was listed."""
    return int(entry.fingerprint.partition(":")[0]), entry.real_key


# Delete the stored copies of pruned checkpoints, and what was derived from them.


logger = logging.getLogger("forkline.pruning")

# Rows of one transaction: bounds the time that other writers wait.
BATCH = 200


def delete_copies(location: Location, rows: Sequence[Checkpoint]) -> int:
    """Delete the copies of these checkpoints, apart from those still at their source. Returns how many.

    Their rows stay, with their position in the lineage. If it is interrupted, the copies that are left are
    listed again.
    """
    deleted = 0
    with import_lock(location):
        for at in range(0, len(rows), BATCH):
            deleted += _delete_some(location, [row.pk for row in rows[at : at + BATCH]])
        remove_checkpoints(location.pk, [row.pk for row in rows])
        left = location.checkpoints.exclude(state=Checkpoint.State.NO_COPY).order_by()
        gone = location.runs.filter(checkpoints__state=Checkpoint.State.NO_COPY)
        # The inputs of a run were read from its copies.
        gone.exclude(pk__in=left.values("run")).update(inputs=[])
    # Deleted pages may still be in the log.
    clear_log()
    logger.info("deleted %d stored copies of %s", deleted, location.path)
    return deleted


def _delete_some(location: Location, keys: Sequence[int]) -> int:
    states = states_without_source(location)
    pruned = Checkpoint.objects.filter(pk__in=keys, location=location, state__in=states)
    with transaction.atomic():
        found = list(pruned.order_by().values_list("pk", flat=True))
        copies = StoredCopy.objects.filter(pk__in=found)
        bucket.release(copies)
        copies.update(data=b"", object=None)
        PreflightCheck.objects.filter(checkpoint__in=found).delete()
        # Without a fingerprint, it is read again if it is back at its source.
        pruned.update(state=Checkpoint.State.NO_COPY, fingerprint="")
        location.runs.update(indexed_fingerprint="", listed_state="")
        Location.objects.filter(pk=location.pk).update(listed_fingerprint="")
        location.mark_changed()
    return len(found)


# Delete what a person has confirmed.


def fresh_plan(location: Location, rules: PruneRules) -> PrunePlan:
    """What these rules would delete of a location as it is now. Raises PruneRefused."""
    _read_undigested_again(location)
    import_location(location)
    location.refresh_from_db()
    if (blocker := prune_blocker(location, rules)) is not None:
        raise PruneRefused(blocker.code, **blocker.values)
    return plan_prune(location, rules)


def prune(location: Location, rules: PruneRules, digest: str) -> Pruned:
    """Delete the list that has this digest, which a person confirmed. It says whether copies are deleted.

    Raises PruneRefused if the list is another one by now, or the location cannot be changed. Nothing was
    deleted then.
    """
    plan = fresh_plan(location, rules)
    if not (plan.rows or plan.pruned) or plan.digest != digest:
        raise PruneRefused("prune.plan_changed")
    # Before anything is deleted: files are part of no transaction.
    record(Action.PRUNED, Audited.LOCATION, location.uid, _pruned_text(plan))
    try:
        with import_lock(location):
            address, is_recorded = address_of(location), recorded_in(plan)
            kept = delete_entries(address, plan.entries, is_recorded) if plan.rows else []
    except (LocationUnreadable, OSError) as error:
        if isinstance(error, RowChanged):
            # Its fingerprint is the same, so that an import would not read it again.
            location.checkpoints.filter(source_key=error.key).update(fingerprint="")
        record(Action.PRUNED, Audited.LOCATION, location.uid, _pruned_text(plan), Result.NOT_DONE)
        if isinstance(error, OSError):
            raise PruneRefused("prune.failed", why=str(error.strerror or error)) from None
        raise PruneRefused(error.message.code, **error.message.values) from None
    not_deleted = {one.key for one in kept}
    deleted = [row.source_key for row in plan.rows if row.source_key not in not_deleted]
    logger.info("pruned %d checkpoints of %s", len(deleted), location.path)
    import_location(location)
    copies = delete_copies(location, [*plan.rows, *plan.pruned]) if plan.deletes_copies else 0
    return Pruned(deleted, kept, copies)


def _pruned_text(plan: PrunePlan) -> str:
    copies = ", and stored copies" if plan.deletes_copies else ""
    return f"{len(plan.rows) or len(plan.pruned)} checkpoints{copies}"


def recorded_in(plan: PrunePlan) -> Callable[[Entry, str], bool]:
    """Return whether the stored copy of an entry was read from a row with this digest."""
    recorded: dict[str, str] = {}
    for some in in_slices([row.pk for row in plan.rows]):
        copies = StoredCopy.objects.filter(checkpoint__in=some)
        recorded.update(copies.values_list("checkpoint__source_key", "source_digest"))
    return lambda entry, digest: recorded.get(entry.key) == keyed_digest(digest) != ""


def _read_undigested_again(location: Location) -> None:
    """Make the next import read the rows whose copies have no digest, because an older version read them."""
    if location.store_kind == Location.StoreKind.SQLITE and is_prunable(location):
        undigested = StoredCopy.objects.with_body().filter(source_digest="")
        present = location.checkpoints.filter(state=Checkpoint.State.PRESENT)
        present.filter(stored_copy__in=undigested).exclude(fingerprint="").update(fingerprint="")
