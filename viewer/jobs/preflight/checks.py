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

from viewer.engines import engine_name, engine_of
from viewer.engines.plan import Edits
from viewer.engines.protocol import kind_of
from viewer.importing import stored_bytes
from viewer.jobs import locks
from viewer.jobs.execution import processes
from viewer.jobs.execution.event_rows import Redactor, redacted_message, redactor_of
from viewer.jobs.execution.outcome import outcome_of_exit
from viewer.jobs.execution.request import permissions_of, request_for, request_for_run
from viewer.jobs.execution.runner_process import LostRunner, RunnerProcess
from viewer.jobs.execution.start import (
    JobRefused,
    make_private_folder,
    runnable,
    start_error,
    start_runner,
    write_private_file,
)
from viewer.jobs.preflight.fingerprints import fingerprint_of
from viewer.jobs.spool import EVENTS, REQUEST, STORED, LocationTarget, Request, read_events
from viewer.messages.message import Words, words_from
from viewer.messages.message import gettext_noop as _
from viewer.models import Checkpoint, Job, PreflightCheck, Project

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
# As much may stand in its folder: the copy of the checkpoint, and what the project's code prints.
MAX_BYTES = 256 * 1024 * 1024
# A look that began longer ago is waited for by nobody.
STALE_AFTER = timedelta(hours=1)
UUID_NAME = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Looks that a thread of this process has in hand.
_running: set[Any] = set()
_running_lock = threading.Lock()


def preflight_checkpoint(
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
    return _check_for(what, fingerprint_of(checkpoint, project, entry_point), again, only_stored)


def preflight_new_run(
    project: Project,
    entry_point: str,
    entity: str,
    provider: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The look at what has no checkpoint, as ``look_at`` gives it.
    ``entity`` is what begins: a root kind's name;
    ``provider`` the form of the place that it writes to."""
    what = {"project": project, "entry_point": entry_point, "entity": entity, "provider": provider}
    fingerprint = fingerprint_of(None, project, entry_point, entity, provider)
    return _check_for(what, fingerprint, again, only_stored)


def _check_for(what: Mapping[str, Any], fingerprint: str, again: bool, only_stored: bool) -> PreflightCheck:
    with transaction.atomic():
        check = PreflightCheck.objects.filter(fingerprint=fingerprint).first()
        if only_stored:
            return check or PreflightCheck(
                **what, fingerprint=fingerprint, status=PreflightCheck.Status.UNCHECKED
            )
        if check is None:
            # What it found before the change holds no more, and is shown nowhere.
            PreflightCheck.objects.ended().filter(**what).delete()
            check = PreflightCheck.objects.create(**what, fingerprint=fingerprint)
        elif check.is_outdated or (again and check.status == PreflightCheck.Status.FAILED):
            check.begin_again()
        if not check.has_ended:
            transaction.on_commit(lambda: start_in_background(check))
    return check


def unaccepted_effects(checkpoint: Checkpoint, project: Project, entry_point: str) -> list[dict[str, Any]]:
    """What this checkpoint adds to the project's own code, and nobody has accepted. Waits for its child.

    The child imports nothing. Raises JobRefused where the effects cannot be listed.
    """
    if entry_point or kind_of(engine_of(checkpoint.location), checkpoint.entity).needs_entry_point:
        return []
    check = PreflightCheck(checkpoint=checkpoint, project=project, entry_point=entry_point)
    make_private_folder(check.folder)
    try:
        with locks.held(check.folder / locks.FOLLOWER):
            child = _start(check, "effects")
            why_ended = _wait(check, child)
            _store_report(check, child, why_ended)
    except OSError as error:
        raise JobRefused(str(error)) from error
    finally:
        shutil.rmtree(check.folder, ignore_errors=True)
    if not check.is_done:
        raise JobRefused(check.why.text, **check.why.values)
    return check.new_effects


def start_in_background(check: PreflightCheck) -> None:
    """Have a thread make it, where none of this process does. Another process's is left alone, too."""
    with _running_lock:
        if check.pk in _running:
            return
        _running.add(check.pk)
    threading.Thread(target=_run_and_log, args=(check,), name=f"preflight-{check.pk}", daemon=True).start()


def run_check(check: PreflightCheck) -> None:
    """Make the look, or return at once where another process does. It waits for its turn: one at a time
    for a project, and no more than ``MAX_PREFLIGHTS`` in all.
    """
    make_private_folder(check.folder)
    with locks.held(check.folder / locks.FOLLOWER) as ours, _slot(check):
        check.refresh_from_db()
        if not ours or check.has_ended:
            return
        if check.status == PreflightCheck.Status.CHECKING:
            # Whoever waited for this one is gone.
            processes.end_all(check.folder, patience=1)
            (check.folder / EVENTS).unlink(missing_ok=True)
        check.note_start()
        try:
            child = _start(check)
        except (JobRefused, OSError) as refused:
            check.fail(start_error(refused))
            return
        _store_report(check, child, _wait(check, child))
    shutil.rmtree(check.folder, ignore_errors=True)
    delete_stale_checks()


def _run_and_log(check: PreflightCheck) -> None:
    try:
        run_check(check)
    except Exception:
        logger.exception("looking at %s", check.pk)
        check.fail(Words(_("Something went wrong here, and it is in the server's log.")))
    finally:
        connection.close()
        with _running_lock:
            _running.discard(check.pk)


@contextmanager
def _slot(check: PreflightCheck) -> Iterator[None]:
    """Wait for the project's turn and a place, and hold both."""
    folder = check.folder.parent
    places = [folder / f"place-{number}.lock" for number in range(settings.MAX_PREFLIGHTS)]
    while True:
        with ExitStack() as held:
            if held.enter_context(locks.held(folder / f"project-{check.project_id}.lock")) and any(
                held.enter_context(locks.held(place)) for place in places
            ):
                yield
                return
        time.sleep(POLL_SECONDS)


def _start(check: PreflightCheck, kind: str = "preflight") -> RunnerProcess:
    """Its child, in the environment of a job's, without keys. Raises JobRefused, OSError."""
    project = runnable(check.project)
    checkpoint, asked = check.checkpoint, _request(check)
    asked = cast(
        Request,
        {
            **asked,
            **permissions_of(project),
            "kind": kind,
            "job": str(check.pk),
            "folder": project.folder,
        },
    )
    if checkpoint and asked["checkpoint"].get("stored"):
        write_private_file(check.folder / STORED, stored_bytes(checkpoint))
        asked["checkpoint"]["source"] = str(check.folder / STORED)
    write_private_file(check.folder / REQUEST, json.dumps(asked).encode())
    engine = engine_name(checkpoint.location) if checkpoint else ""
    return start_runner(check.folder, project, is_preflight=True, engine=engine)


def _request(check: PreflightCheck) -> Request:
    """What the run would be asked to do. Raises JobRefused."""
    if check.is_of_new_run:
        place = LocationTarget(path="", provider="sqlite" if check.provider == "sqlite" else "json")
        return request_for_run(place, check.entity, "", check.entry_point, {})
    checkpoint = check.checkpoint
    if checkpoint is None:
        raise JobRefused(_("The checkpoint is gone: its location was removed."))
    return request_for(checkpoint, Job.Kind.RESUME, checkpoint.branch, Edits(), [], check.entry_point)


def _wait(check: PreflightCheck, child: RunnerProcess) -> Words | None:
    """Wait until it has ended by itself: then None, else why it has to be ended."""
    until = time.monotonic() + settings.PREFLIGHT_SECONDS
    with suppress(LostRunner):
        while child.poll() is None:
            if time.monotonic() > until:
                message = _("It took longer than PREFLIGHT_SECONDS allows (%(seconds)d), and was ended.")
                return Words(message, {"seconds": settings.PREFLIGHT_SECONDS})
            if sum(file.stat().st_size for file in check.folder.glob("*") if file.is_file()) > MAX_BYTES:
                return Words(_("It wrote without end, and was ended."))
            time.sleep(POLL_SECONDS)
    return None


def delete_stale_checks() -> None:
    """Put away what was left of looks whose server was killed: nobody asks for most of them again."""
    before = timezone.now() - STALE_AFTER
    for check in PreflightCheck.objects.exclude(pk__in=PreflightCheck.objects.ended()).filter(
        created_at__lt=before
    ):
        if check.pk not in _running and not locks.is_held(check.folder / locks.FOLLOWER):
            processes.end_all(check.folder, patience=1)
            check.delete()
    known = {str(pk) for pk in PreflightCheck.objects.values_list("pk", flat=True)}
    for folder in (Path(settings.DATA_DIR) / "looks").glob("*"):
        # What somebody else keeps in a folder of this name is not ours.
        if not UUID_NAME.fullmatch(folder.name) or folder.name in known:
            continue
        if not locks.is_held(folder / locks.FOLLOWER):
            shutil.rmtree(folder, ignore_errors=True)


def _store_report(check: PreflightCheck, child: RunnerProcess, why_ended: Words | None) -> None:
    """Keep what it found, or why it found nothing; nothing of it runs on."""
    processes.end_all(check.folder, patience=1)
    reported_outcome = {line["kind"]: line["data"] for line in _events(check.folder)}
    hide = redactor_of(check.project)
    report, ended = reported_outcome.get("preflight", {}).get("report"), reported_outcome.get("ended", {})
    if isinstance(report, dict):
        check.finish(_without_secrets(report, hide))
    elif why_ended:
        check.fail(why_ended)
    elif error := str(ended.get("error") or ""):
        check.fail(redacted_message(words_from(ended.get("words"), error), hide))
    else:
        check.fail(outcome_of_exit(child.returncode or 0).error)


def _without_secrets(report: Mapping[str, Any], hide: Redactor) -> dict[str, Any]:
    shown: dict[str, Any] = hide(report)
    for effect, clean in zip(report.get("effects") or [], shown.get("effects") or [], strict=True):
        # Hashes, which might be taken for secrets. What a person accepts is compared by them.
        clean.update({name: str(effect.get(name) or "") for name in ("key", "digest", "kind")})
    beside = zip_longest(shown.get("blocks") or [], shown.get("block_words") or [], fillvalue="")
    return {**shown, "block_words": [words_from(words, str(block)).plain() for block, words in beside]}


def _events(folder: Path) -> Iterator[Any]:
    offset, before = 0, -1
    while offset != before:
        before = offset
        lines, offset = read_events(folder, offset)
        yield from lines
