"""An import: look what stands there, read what is new or has changed, reconcile where it hangs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from viewer.importing.garbage_collection import only_new_garbage
from viewer.importing.import_lock import import_lock
from viewer.importing.limits import address_of
from viewer.importing.problems import Problems
from viewer.importing.project_secrets import redact_known_secrets
from viewer.importing.reader import reader_count
from viewer.importing.reconcile import reconcile
from viewer.importing.rows import Known, known_rows, mark_states
from viewer.messages.message import Words
from viewer.messages.message import gettext_noop as _
from viewer.models import Checkpoint, Location
from viewer.stores.location_reader import LocationReader, open_reader
from viewer.stores.packing import Packed
from viewer.stores.protocol import (
    TABLE,
    Entry,
    LocationRefused,
    LocationReplaced,
    LocationUnreadable,
    ReadProblem,
)

# So many are read, or so many bytes of them are to be stored, before they are: that bounds memory.
SLICE, SLICE_BYTES = 2_000, 16 * 1024 * 1024
# From so many on, they are stored where the next run begins, while another process reads on: a run that
# comes in one slice is settled once.
WORTH_STORING = 400
# An import that found nothing new is only noted this often: open locations are looked at every second.
NOTED_EVERY = timedelta(seconds=20)


@dataclass(slots=True)
class ImportSummary:
    """What one import did.

    ``read`` counts what was opened, ``unreadable`` tells why nothing could be. ``unavailable`` are the keys
    of what could not be opened or read, whatever it holds: the next import tries again.
    """

    read: int = 0
    added: int = 0
    changed: int = 0
    pruned: int = 0
    problems: int = 0
    unreadable: Words | None = None
    unavailable: list[str] = field(default_factory=list)
    # What is at the path of a location that was replaced (viewer/stores/safe_open.py).
    replaced_by: str = ""
    # What the store was like that exceeds the limits.
    refused_mark: str = ""
    is_news: bool = False


@dataclass(slots=True)
class _Look:
    """What stands at a location, compared with what is known of it."""

    entries: list[Entry] = field(default_factory=list)
    due: list[Entry] = field(default_factory=list)
    faults: list[ReadProblem] = field(default_factory=list)


def import_location(location: Location) -> ImportSummary:
    """Bring the rows of a location up to date. What has not changed is not read again."""
    try:
        with import_lock(location):
            if not location.refresh_if_listed():
                return ImportSummary()
            location.refresh_from_db(fields=["project", "secrets_mark"])
            redact_known_secrets(location)
            summary = _within_store(location, lambda store: _import(location, store))
            _note(location, summary)
    except OSError as error:
        # No lock is to be had: neither descriptors nor space are left.
        return ImportSummary(unreadable=_no_room(error))
    return summary


def _within_store(location: Location, run: Callable[[LocationReader], ImportSummary]) -> ImportSummary:
    """What ``run`` returns of the location's store, or why that could not be read."""
    mark = ""
    try:
        with open_reader(address_of(location)) as store:
            if not location.identity:
                location.pin(str(store.identity))
            mark = store.mark
            if location.refused_mark == mark:
                # The very same exceeded the limits before.
                return ImportSummary(unreadable=location.read_error_message, refused_mark=mark)
            return run(store)
    except LocationReplaced as error:
        return ImportSummary(unreadable=error.words, replaced_by=error.identity)
    except LocationRefused as error:
        return ImportSummary(unreadable=error.words, refused_mark=mark)
    except LocationUnreadable as error:
        return ImportSummary(unreadable=error.words)
    except OSError as error:
        return ImportSummary(unreadable=_no_room(error))


def _no_room(error: OSError) -> Words:
    return Words(_("It could not be read: %(why)s. Try again."), {"why": str(error.strerror or error)})


def import_one(location: Location, source: str) -> ImportSummary:
    """Import one checkpoint that was just written: a file's path, ``store.db#id``, or a key of the location.

    Nothing else there is looked at. Where there is no such checkpoint, nothing happens.
    """
    key = _key_of(location, source)
    with import_lock(location):
        if not location.refresh_if_listed():
            return ImportSummary()
        location.refresh_from_db(fields=["project", "secrets_mark"])
        redact_known_secrets(location)
        summary = _within_store(location, lambda store: _import_these(location, store, key))
        if not summary.unreadable:
            _note(location, summary)
    return summary


def _key_of(location: Location, source: str) -> str:
    if location.provider == Location.Provider.SQLITE:
        return source.rpartition("#")[2]
    path = Path(source)
    if path.is_absolute():
        for root in (Path(location.path), Path(location.path).resolve()):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        resolved = path.resolve()
        if resolved.is_relative_to(location.path):
            return resolved.relative_to(location.path).as_posix()
    return source


def _import(location: Location, store: LocationReader) -> ImportSummary:
    known = known_rows(location)
    problems = Problems(location)
    look = _look(store.entries(), known, problems)
    with only_new_garbage(len(look.due)):
        summary = _store(location, store, look.due, known, problems)
    seen = {entry.key for entry in look.entries}
    gone = [key for key in known if key not in seen and known[key].state != Checkpoint.State.PRUNED]
    gone = [key for key in gone if not _is_hidden(key, look.faults)]
    summary.pruned = len(gone)
    back = [entry.key for entry in look.entries if _is_back(known.get(entry.key), entry, problems)]
    for fault in look.faults:
        problems.found(fault)
    summary.unavailable += [fault.key for fault in look.faults if fault.kind == "unavailable"]
    with transaction.atomic():
        mark_states(location, gone, Checkpoint.State.PRUNED)
        mark_states(location, back, Checkpoint.State.PRESENT)
        summary.is_news |= problems.save()
    summary.problems = len(problems)
    summary.is_news |= bool(gone or back or summary.added or summary.changed)
    return summary


def _import_these(location: Location, store: LocationReader, key: str) -> ImportSummary:
    found = store.entry(key)
    # A name may hide a secret.
    key = found.key if found else key
    known = known_rows(location, {key})
    problems = Problems(location, {key})
    look = _look(iter([found] if found else []), known, problems)
    summary = _store(location, store, look.due, known, problems)
    for fault in look.faults:
        if fault.kind == "unavailable":
            problems.found(fault)
            summary.unavailable.append(fault.key)
    with transaction.atomic():
        summary.is_news |= problems.save()
    summary.problems = len(problems)
    summary.is_news |= bool(summary.added or summary.changed)
    return summary


def _look(found: Iterator[Entry | ReadProblem], known: dict[str, Known], problems: Problems) -> _Look:
    look = _Look()
    for item in found:
        if isinstance(item, ReadProblem):
            look.faults.append(item)
            continue
        look.entries.append(item)
        row = known.get(item.key)
        if row is not None and row.fingerprint == item.fingerprint:
            continue
        if not problems.is_settled(item):
            look.due.append(item)
    return look


def _is_back(row: Known | None, entry: Entry, problems: Problems) -> bool:
    """Whether the very bytes that were read before stand there again."""
    return row is not None and row.state != Checkpoint.State.PRESENT and row.fingerprint == entry.fingerprint


def _is_hidden(key: str, faults: Iterable[ReadProblem]) -> bool:
    """Whether the part of the location that this stood in could not be looked at."""
    return any(
        fault.hides_others and (fault.key in (".", TABLE, key) or key.startswith(f"{fault.key}/"))
        for fault in faults
    )


def _store(
    location: Location, store: LocationReader, due: list[Entry], known: dict[str, Known], problems: Problems
) -> ImportSummary:
    """Read what is due and store it, slice by slice."""
    summary = ImportSummary(read=len(due))
    # Runs come whole that way: ids begin with their time.
    due = sorted(due, key=lambda entry: entry.key.rpartition("/")[2])
    for batch in _slices(store.read_all(due, reader_count())):
        read = [result for result in batch if isinstance(result, Packed)]
        failed = [result for result in batch if isinstance(result, ReadProblem)]
        for fault in failed:
            problems.found(fault)
        summary.unavailable += [fault.key for fault in failed if fault.kind == "unavailable"]
        with transaction.atomic():
            if read:
                reconcile(location, read)
            for state in (Checkpoint.State.WRITING, Checkpoint.State.BROKEN):
                keys = [f.key for f in failed if f.key in known and problems.state_after(f) == state]
                summary.changed += mark_states(location, keys, state)
        changed = sum(result.key in known for result in read)
        summary.changed += changed
        summary.added += len(read) - changed
    return summary


def _slices(results: Iterator[Packed | ReadProblem]) -> Iterator[list[Packed | ReadProblem]]:
    """The results that are stored together."""
    some: list[Packed | ReadProblem] = []
    size, kickoffs, ids = 0, set[str](), set[str]()
    for result in results:
        is_full = len(some) >= SLICE or size >= SLICE_BYTES
        if is_full or (len(some) >= WORTH_STORING and _begins_a_run(result, kickoffs, ids)):
            yield some
            some, size = [], 0
            kickoffs.clear()
        some.append(result)
        if isinstance(result, Packed):
            size += len(result.data)
            kickoffs.add(result.snapshot.run_key)
            ids.add(result.snapshot.checkpoint_id)
    if some:
        yield some


def _begins_a_run(result: Packed | ReadProblem, kickoffs: set[str], ids: set[str]) -> bool:
    """Whether it continues none of these, nor is of a kickoff of theirs: old versions tell no parents."""
    if not isinstance(result, Packed):
        return False
    return result.snapshot.parent_id not in ids and result.snapshot.run_key not in kickoffs - {""}


def _note(location: Location, summary: ImportSummary) -> None:
    now = timezone.now()
    if (location.read_error, location.replaced_by) != (str(summary.unreadable or ""), summary.replaced_by):
        summary.is_news = True
    is_due = location.imported_at is None or now - location.imported_at > NOTED_EVERY
    is_due |= location.refused_mark != summary.refused_mark
    if not (summary.is_news or is_due):
        return
    location.replaced_by, location.refused_mark = summary.replaced_by, summary.refused_mark
    location.note_import(now, summary.unreadable, summary.is_news)


def redact_stored(location: Location) -> None:
    """Hide the project's secrets in what is stored of a location, as its next import would."""
    with import_lock(location):
        if location.refresh_if_listed():
            location.refresh_from_db(fields=["project", "secrets_mark"])
            redact_known_secrets(location)
