"""Looks before runs. Each is made by a child of its own that runs nothing, beside the jobs and in none of
their places: the process that shows the form starts it, and a thread there waits for it.

The runner's ``preflight`` event holds the report:

==================  =====================================================================================
python_version      of the project's interpreter; also engine_version, and sqlite_version where it counts
checkpoint_version  the engine that wrote the checkpoint
effects             kind, name, detail, digest, key: what the checkpoint adds to the project's own code
is_complete         whether all of these were accepted: only then anything is imported, and the rest found out
imports             the project's modules that restoring or the entry point imports
components          what, name, task (position), agent (role), fate: restored, project or lost
questions           kind (task, agent), saved (its id), position, title, reason, choices
blocks              why the run cannot be, in English; block_words the same as a stored message
notes               what (such as unwritten), detail
==================  =====================================================================================
"""

import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from viewer.engines.plan import Edits
from viewer.importing import stored_bytes
from viewer.jobs import locks
from viewer.jobs.execution import processes
from viewer.jobs.execution.child_process import Child, Lost
from viewer.jobs.execution.event_rows import Hiding, hidden, hiding_of
from viewer.jobs.execution.outcome import went
from viewer.jobs.execution.request import permissions_of, request_for, request_for_run
from viewer.jobs.execution.start import (
    JobRefused,
    make_own_folder,
    runnable,
    start_child,
    why_not,
    write_for_owner,
)
from viewer.jobs.preflight.fingerprints import fingerprint_of
from viewer.jobs.spool import EVENTS, REQUEST, STORED, LocationTarget, Request, read_events
from viewer.messages.message import Words, words_from
from viewer.messages.message import gettext_noop as _
from viewer.models import Checkpoint, Job, PreflightCheck, Project

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
# As much may stand in its folder: the copy of the checkpoint, and what the project's code prints.
MOST_BYTES = 256 * 1024 * 1024
# A look that began longer ago is waited for by nobody.
LEFT_FOR = timedelta(hours=1)
A_KEY = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Looks that a thread of this process has in hand.
_in_hand: set[Any] = set()
_in_hand_lock = threading.Lock()


def look_at(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The look at this run: the one that was made already, else one that begins now and is waited for by
    nobody. With ``again``, one that failed begins once more. With ``only_stored`` none begins: where there
    is none, the one that is returned is not saved.
    """
    what = {"checkpoint": checkpoint, "project": project, "entry_point": entry_point}
    return _look_for(what, fingerprint_of(checkpoint, project, entry_point), again, only_stored)


def look_at_new_run(
    project: Project,
    entry_point: str,
    entity: str,
    provider: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The look at what has no checkpoint, as ``look_at`` gives it. ``entity`` is what begins: a crew, a flow
    or an agent; ``provider`` the form of the place that it writes to.
    """
    what = {"project": project, "entry_point": entry_point, "entity": entity, "provider": provider}
    fingerprint = fingerprint_of(None, project, entry_point, entity, provider)
    return _look_for(what, fingerprint, again, only_stored)


def _look_for(what: Mapping[str, Any], fingerprint: str, again: bool, only_stored: bool) -> PreflightCheck:
    with transaction.atomic():
        look = PreflightCheck.objects.filter(fingerprint=fingerprint).first()
        if only_stored:
            return look or PreflightCheck(
                **what, fingerprint=fingerprint, status=PreflightCheck.Status.UNCHECKED
            )
        if look is None:
            # What it found before the change holds no more, and is shown nowhere.
            PreflightCheck.objects.ended().filter(**what).delete()
            look = PreflightCheck.objects.create(**what, fingerprint=fingerprint)
        elif look.is_outdated or (again and look.status == PreflightCheck.Status.FAILED):
            look.begin_again()
        if not look.has_ended:
            transaction.on_commit(lambda: begin(look))
    return look


def effects_now(checkpoint: Checkpoint, project: Project, entry_point: str) -> list[dict[str, Any]]:
    """What this checkpoint adds to the project's own code, and nobody has accepted. Waits for its child.

    The child imports nothing. Raises JobRefused where the effects cannot be listed.
    """
    if entry_point or checkpoint.entity == "flow":
        return []
    look = PreflightCheck(checkpoint=checkpoint, project=project, entry_point=entry_point)
    make_own_folder(look.folder)
    try:
        with locks.held(look.folder / locks.FOLLOWER):
            child = _started(look, "effects")
            why_ended = _wait(look, child)
            _report(look, child, why_ended)
    except OSError as error:
        raise JobRefused(str(error)) from error
    finally:
        shutil.rmtree(look.folder, ignore_errors=True)
    if not look.is_done:
        raise JobRefused(look.why.text, **look.why.values)
    return look.new_effects


def begin(look: PreflightCheck) -> None:
    """Have a thread make it, where none of this process does. Another process's is left alone, too."""
    with _in_hand_lock:
        if look.pk in _in_hand:
            return
        _in_hand.add(look.pk)
    threading.Thread(target=_make_quietly, args=(look,), name=f"look-{look.pk}", daemon=True).start()


def make(look: PreflightCheck) -> None:
    """Make the look, or return at once where another process does. It waits for its turn: one at a time
    for a project, and no more than ``MAX_PREFLIGHTS`` in all.
    """
    make_own_folder(look.folder)
    with locks.held(look.folder / locks.FOLLOWER) as ours, _turn(look):
        look.refresh_from_db()
        if not ours or look.has_ended:
            return
        if look.status == PreflightCheck.Status.CHECKING:
            # Whoever waited for this one is gone.
            processes.end_all(look.folder, patience=1)
            (look.folder / EVENTS).unlink(missing_ok=True)
        look.note_start()
        try:
            child = _started(look)
        except (JobRefused, OSError) as refused:
            look.fail(why_not(refused))
            return
        _report(look, child, _wait(look, child))
    shutil.rmtree(look.folder, ignore_errors=True)
    clear_left()


def _make_quietly(look: PreflightCheck) -> None:
    try:
        make(look)
    except Exception:
        logger.exception("looking at %s", look.pk)
        look.fail(Words(_("Something went wrong here, and it is in the server's log.")))
    finally:
        connection.close()
        with _in_hand_lock:
            _in_hand.discard(look.pk)


@contextmanager
def _turn(look: PreflightCheck) -> Iterator[None]:
    """Wait for the project's turn and a place, and hold both."""
    folder = look.folder.parent
    places = [folder / f"place-{number}.lock" for number in range(settings.MAX_PREFLIGHTS)]
    while True:
        with ExitStack() as held:
            if held.enter_context(locks.held(folder / f"project-{look.project_id}.lock")) and any(
                held.enter_context(locks.held(place)) for place in places
            ):
                yield
                return
        time.sleep(POLL_SECONDS)


def _started(look: PreflightCheck, kind: str = "preflight") -> Child:
    """Its child, in the environment of a job's, without keys. Raises JobRefused, OSError."""
    project = runnable(look.project)
    checkpoint, asked = look.checkpoint, _asked(look)
    asked = cast(
        Request,
        {
            **asked,
            **permissions_of(project),
            "kind": kind,
            "job": str(look.pk),
            "folder": project.folder,
        },
    )
    if checkpoint and asked["checkpoint"].get("stored"):
        write_for_owner(look.folder / STORED, stored_bytes(checkpoint))
        asked["checkpoint"]["source"] = str(look.folder / STORED)
    write_for_owner(look.folder / REQUEST, json.dumps(asked).encode())
    return start_child(look.folder, project, is_preflight=True)


def _asked(look: PreflightCheck) -> Request:
    """What the run would be asked to do. Raises JobRefused."""
    if look.is_of_new_run:
        place = LocationTarget(path="", provider="sqlite" if look.provider == "sqlite" else "json")
        return request_for_run(place, look.entity, "", look.entry_point, {})
    checkpoint = look.checkpoint
    if checkpoint is None:
        raise JobRefused(_("The checkpoint is gone: its location was removed."))
    return request_for(checkpoint, Job.Kind.RESUME, checkpoint.branch, Edits(), [], look.entry_point)


def _wait(look: PreflightCheck, child: Child) -> Words | None:
    """Wait until it has ended by itself: then None, else why it has to be ended."""
    until = time.monotonic() + settings.PREFLIGHT_SECONDS
    with suppress(Lost):
        while child.poll() is None:
            if time.monotonic() > until:
                message = _("It took longer than PREFLIGHT_SECONDS allows (%(seconds)d), and was ended.")
                return Words(message, {"seconds": settings.PREFLIGHT_SECONDS})
            if sum(file.stat().st_size for file in look.folder.glob("*") if file.is_file()) > MOST_BYTES:
                return Words(_("It wrote without end, and was ended."))
            time.sleep(POLL_SECONDS)
    return None


def clear_left() -> None:
    """Put away what was left of looks whose server was killed: nobody asks for most of them again."""
    before = timezone.now() - LEFT_FOR
    for look in PreflightCheck.objects.exclude(pk__in=PreflightCheck.objects.ended()).filter(
        created_at__lt=before
    ):
        if look.pk not in _in_hand and not locks.is_held(look.folder / locks.FOLLOWER):
            processes.end_all(look.folder, patience=1)
            look.delete()
    known = {str(pk) for pk in PreflightCheck.objects.values_list("pk", flat=True)}
    for folder in (Path(settings.DATA_DIR) / "looks").glob("*"):
        # What somebody else keeps in a folder of this name is not ours.
        if not A_KEY.fullmatch(folder.name) or folder.name in known:
            continue
        if not locks.is_held(folder / locks.FOLLOWER):
            shutil.rmtree(folder, ignore_errors=True)


def _report(look: PreflightCheck, child: Child, why_ended: Words | None) -> None:
    """Keep what it found, or why it found nothing; nothing of it runs on."""
    processes.end_all(look.folder, patience=1)
    said = {line["kind"]: line["data"] for line in _lines(look.folder)}
    hide = hiding_of(look.project)
    report, ended = said.get("preflight", {}).get("report"), said.get("ended", {})
    if isinstance(report, dict):
        look.finish(_without_secrets(report, hide))
    elif why_ended:
        look.fail(why_ended)
    elif error := str(ended.get("error") or ""):
        look.fail(hidden(words_from(ended.get("words"), error), hide))
    else:
        look.fail(went(child.returncode or 0).error)


def _without_secrets(report: Mapping[str, Any], hide: Hiding) -> dict[str, Any]:
    shown: dict[str, Any] = hide(report)
    for effect, clean in zip(report.get("effects") or [], shown.get("effects") or [], strict=True):
        # Hashes, which might be taken for secrets. What a person accepts is compared by them.
        clean.update({name: str(effect.get(name) or "") for name in ("key", "digest", "kind")})
    beside = zip_longest(shown.get("blocks") or [], shown.get("block_words") or [], fillvalue="")
    return {**shown, "block_words": [words_from(words, str(block)).plain() for block, words in beside]}


def _lines(folder: Path) -> Iterator[Any]:
    offset, before = 0, -1
    while offset != before:
        before = offset
        lines, offset = read_events(folder, offset)
        yield from lines
