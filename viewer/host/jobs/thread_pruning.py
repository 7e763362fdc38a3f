"""Delete whole threads or old checkpoints of LangGraph's stores, from a list that a person has confirmed.

The project's interpreter lists and deletes, with the engine's own saver where it has a method for that
(viewer/runners/forkline_langgraph/pruning.py). Before checkpoints are deleted, their redacted copies are
stored, unless the person has chosen that no copies stay.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.utils import timezone

from viewer.host.jobs.savers import end_saver, output_of
from viewer.host.locations import pruning
from viewer.host.locations.completing import copy_checkpoints, with_current_copy
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.host.locations.pruning import Protected
from viewer.host.locations.sources import NotConfigured, refuse_outside
from viewer.host.project_secrets import secrets_for
from viewer.host_requests import (
    JobRefused,
    KeptEntry,
    Pruned,
    PrunedThread,
    PruneList,
    PruneRefused,
    PruneRules,
)
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Annotation, Checkpoint, Location, Run
from viewer.models.rows import in_slices
from viewer.records.annotations import commented_ids
from viewer.records.audit import Action, Audited, Result, record
from viewer.records.collections import collected_ids
from viewer.redaction import MARKER
from viewer.redaction.known_secrets import known_secrets, redacted_name
from viewer.stores import saver_in
from viewer.stores.protocol import LocationUnreadable

logger = logging.getLogger("forkline.pruning")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class _Answer(msgspec.Struct):
    """What the runner lists. ``rows`` are threads, namespaces and ids; ``threads`` have counts and bytes."""

    digest: str
    threads: list[tuple[str, int, int]]
    rows: list[tuple[str, str, str]]
    protected: dict[str, int]
    deleted: bool


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """What would be deleted at the source, and the stored copies of what is no longer there."""

    location: Location
    rules: PruneRules
    listed: _Answer
    request: dict[str, Any]
    pruned: Sequence[Checkpoint] = field(default=())

    @property
    def keys(self) -> list[str]:
        """The source keys of what would be deleted."""
        return _keys(self.listed)

    @property
    def digest(self) -> str:
        """A text that changes with the location, the list, or any row of the threads in it."""
        lines = [self.location.path, self.location.identity, self.listed.digest]
        if self.rules.copies:
            lines += ["copies", *(f"{row.source_key}\0{row.fingerprint}" for row in self.pruned)]
        return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def _keys(answer: _Answer) -> list[str]:
    return ["/".join(part for part in row if part) for row in answer.rows]


def list_prunable(location: Location, rules: PruneRules) -> PruneList:
    """What these rules would delete of a location as it is now. Raises PruneRefused."""
    plan = _fresh_plan(location, rules)
    return PruneList(
        rows=plan.keys,
        pruned=[row.source_key for row in plan.pruned],
        protected=plan.listed.protected,
        size=sum(size for _thread, _count, size in plan.listed.threads),
        digest=plan.digest,
        deletes_copies=rules.copies,
        threads=[PrunedThread(*one) for one in plan.listed.threads] if rules.whole_threads else [],
    )


def prune(location: Location, rules: PruneRules, digest: str) -> Pruned:
    """Delete the list that has this digest, which a person confirmed.

    Raises PruneRefused if the list is another one by now, or cannot be deleted. Nothing was deleted then.
    """
    plan = _fresh_plan(location, rules)
    if not (plan.keys or plan.pruned) or plan.digest != digest:
        raise PruneRefused("prune.plan_changed")
    if not rules.copies:
        _copy(plan)
    # Meanwhile, a job may have been started, or somebody may have annotated one of them.
    if (blocker := _blocker(location, rules)) is not None:
        raise PruneRefused(blocker.code, **blocker.values)
    request = {**plan.request, "protected": _protected(location), "digest": plan.listed.digest}
    text = f"{len(plan.keys) or len(plan.pruned)} checkpoints{', and stored copies' if rules.copies else ''}"
    # Before anything is deleted: the location is part of no transaction.
    record(Action.PRUNED, Audited.LOCATION, location.uid, text)
    deleted = list[str]()
    if plan.keys:
        try:
            answer = _answer(location, request)
            if not answer.deleted:
                raise PruneRefused("prune.plan_changed")
        except PruneRefused:
            record(Action.PRUNED, Audited.LOCATION, location.uid, text, Result.NOT_DONE)
            raise
        deleted = _keys(answer)
    logger.info("pruned %d checkpoints of %s", len(deleted), location.path)
    end_saver(location)
    import_location(location)
    for run in _runs(plan):
        import_run(run)
    copies = 0
    if rules.copies:
        copies = pruning.delete_copies(location, [*_rows(plan), *plan.pruned])
    # A project's saver has no transaction, and may fail after some of the threads.
    left = [KeptEntry(key, UserMessage("saver.not_deleted")) for key in sorted({*plan.keys} - {*deleted})]
    return Pruned(deleted, left, copies)


def _fresh_plan(location: Location, rules: PruneRules) -> ThreadPlan:
    if rules.is_empty:
        return ThreadPlan(location, rules, _Answer("", [], [], {}, deleted=False), {})
    import_location(location)
    location.refresh_from_db()
    if not location.listed_fingerprint:
        # The first import lists only the newest runs.
        import_location(location)
        location.refresh_from_db()
    if (blocker := _blocker(location, rules)) is not None:
        raise PruneRefused(blocker.code, **blocker.values)
    request = _request(location, rules)
    listed = _answer(location, request)
    if hidden := _hidden(location, listed):
        request["kept_threads"] = sorted(hidden)
        listed = _answer(location, request)
    pruned = pruning.plan_prune(location, rules).pruned if rules.copies else ()
    return ThreadPlan(location, rules, listed, request, pruned)


def _blocker(location: Location, rules: PruneRules) -> UserMessage | None:
    if rules.branch:
        return UserMessage("prune.no_branches")
    if rules.whole_threads and rules.latest is not None:
        return UserMessage("prune.whole_or_latest")
    if location.is_only_read and not rules.whole_threads:
        return UserMessage("prune.saver_whole_only")
    return pruning.common_blocker(location)


def _request(location: Location, rules: PruneRules) -> dict[str, Any]:
    protected = _protected(location)
    if any(MARKER in identifier for identifier in protected):
        # Its real id is not known here.
        raise PruneRefused("prune.protected_name_hidden")
    return {
        "path": location.path,
        "saver": [*saver_in(location.path)] if location.is_only_read else [],
        "rules": {
            "days": rules.days,
            "latest": rules.latest,
            "thread": rules.thread,
            "whole": rules.whole_threads,
        },
        "now": timezone.now().timestamp(),
        "protected": protected,
        "kept_threads": [],
        "digest": "",
    }


def _protected(location: Location) -> dict[str, str]:
    """The ids of checkpoints that stay, with the reason. That of a run protects its newest checkpoint."""
    used = location.checkpoints.filter(pk__in=pruning.in_use(location)).order_by()
    found = dict.fromkeys(used.values_list("checkpoint_id", flat=True), Protected.IN_USE.value)
    found |= dict.fromkeys(collected_ids(location), Protected.ANNOTATED.value)
    written = Annotation.objects.filter(location_uid=location.uid)
    about = {(one.run_key, one.checkpoint_id) for one in written if not one.is_empty}
    for run, checkpoint in about | commented_ids(location):
        if checkpoint:
            found[checkpoint] = Protected.ANNOTATED.value
        for head in location.runs.filter(key=run).order_by().values_list("head", flat=True):
            found[head] = Protected.ANNOTATED.value
    return found


def _answer(location: Location, request: dict[str, Any]) -> _Answer:
    """What the runner lists or deletes. Raises PruneRefused."""
    try:
        refuse_outside(location)
        output = output_of(location, lambda _project, end: ["prune", end], msgspec.json.encode(request))
        return msgspec.json.decode(output, type=_Answer)
    except (JobRefused, LocationUnreadable, NotConfigured) as refused:
        raise PruneRefused(refused.message.code, **refused.message.values) from None
    except OSError as error:
        raise PruneRefused("saver.not_started", why=str(error.strerror or error)) from None
    except (msgspec.MsgspecError, UnicodeError):
        raise PruneRefused("saver.malformed") from None


def _hidden(location: Location, listed: _Answer) -> set[str]:
    """The threads that pages do not show by their ids, because those hold a secret or cannot be shown."""
    shown = set(location.runs.top_level().order_by().values_list("key", flat=True))
    known, names = known_secrets(secrets_for(location.project)), dict[str, bool]()

    def is_shown(part: str) -> bool:
        if part not in names:
            is_id = _UUID.fullmatch(part) and not known.is_in(part.encode())
            names[part] = bool(is_id) or redacted_name(part, known) == part
        return names[part]

    return {
        thread
        for thread, namespace, identifier in listed.rows
        if thread not in shown
        or not all(is_shown(part) for part in (*re.split("[|:]", namespace), identifier))
    }


def _runs(plan: ThreadPlan) -> Iterator[Run]:
    """The listed threads that Forkline still has."""
    for some in in_slices([thread for thread, _count, _size in plan.listed.threads]):
        yield from plan.location.runs.top_level().filter(key__in=some).select_related("location__project")


def _rows(plan: ThreadPlan) -> list[Checkpoint]:
    """The rows of what is listed, as far as there are any."""
    found = list[Checkpoint]()
    for some in in_slices(plan.keys):
        found += plan.location.checkpoints.filter(source_key__in=some).select_related("location")
    return found


def _copy(plan: ThreadPlan) -> None:
    """Store the redacted copies of everything that is listed. Raises PruneRefused."""
    for run in _runs(plan):
        import_run(run)
    rows = _rows(plan)
    with suppress(UserFacingError, OSError):
        copy_checkpoints(plan.location, rows)
    if missing := len(plan.keys) - len(with_current_copy(rows)):
        raise PruneRefused("prune.not_copied", count=missing)
