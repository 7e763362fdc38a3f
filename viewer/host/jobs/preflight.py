"""Preflight checks: what a run would restore, need and execute, found without running anything."""

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from viewer.data_folder.locks import exclusive_transaction, lock_named
from viewer.engines import ENGINES, engine_name, engine_of
from viewer.engines.plan import EditRefused, Edits
from viewer.engines.protocol import kind_of
from viewer.engines.runner_protocol import LocationTarget, Report, Request
from viewer.host.confined import confined
from viewer.host.jobs import processes
from viewer.host.jobs.checkout import check_out
from viewer.host.jobs.code import files_below, source_folders
from viewer.host.jobs.environment import runnable, runner_program, start_error
from viewer.host.jobs.events import Redactor, redactor_of, storable
from viewer.host.jobs.files import JobStorage, storage_of, storages
from viewer.host.jobs.processes import LostRunner, RunnerProcess, outcome_of_exit
from viewer.host.jobs.savers import copy_from_saver, source_in, store_of_other_host
from viewer.host.jobs.spool import SpoolEvent
from viewer.host.jobs.starting import permissions_of, start_runner
from viewer.host.permitted import refuse_source
from viewer.host_requests import HostRefusal, JobRefused
from viewer.messages.message import UserMessage, message_from, plain_text, redacted_message
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project
from viewer.records.bodies import copy_to_send, stored_bytes
from viewer.records.runner_requests import request_for, request_for_run

# Fingerprints of everything that a preflight check depends on. A different one makes the check outdated.


# Increase it when checks find something that earlier ones did not.
VERSION = 2
# Some engines have SQL for their readers that their runners load as well.
ENGINE_FOLDER = Path(__file__).resolve().parents[2] / "engines"
# Source code, and files that projects commonly read while they are imported.
SOURCES = (".py", ".yaml", ".yml", ".toml", ".json", ".env")
# How long a check counts if the project is too large to be searched.
LARGE_PROJECT_SECONDS = 600


def fingerprint_of(
    checkpoint: Checkpoint | None, project: Project, entry_point: str, *more: str, commit: str = ""
) -> str:
    """Return a hash of everything that a preflight check depends on.

    That is the checkpoint, the entry point, the interpreter and its packages, the environment file, the
    sources of the project, or the commit that has them, those of the runner, and ``more``.
    """
    parts = [
        str(VERSION),
        entry_point,
        *more,
        project.folder,
        project.interpreter,
        *_marks([Path(project.interpreter), *_installed(Path(project.interpreter))]),
        *(_marks([Path(project.environment_file)]) if project.environment_file else ()),
        *_marks(_runner_sources()),
    ]
    without = set(Location.objects.runnable_here().values_list("path", flat=True))
    if commit:
        parts.append(f"commit {commit}")
    own = Path(project.folder)
    for folder in [] if commit else source_folders(own):
        parts += confined(own, partial(_source_marks, folder, without))
    if checkpoint:
        parts += [str(checkpoint.pk), checkpoint.source, checkpoint.fingerprint, checkpoint.state]
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:40]


def _marks(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            status = path.stat()
            yield f"{path} {status.st_size} {status.st_mtime_ns}"
        except OSError:
            yield f"{path} -"


def _installed(interpreter: Path) -> list[Path]:
    """The paths whose modification time changes when a package is installed or removed."""
    environment = interpreter.parent.parent
    return [environment / "pyvenv.cfg", *sorted(environment.glob("lib/python3*/site-packages"))]


def _runner_sources() -> list[Path]:
    """The programs of the engines' runners, the modules of the packages next to them, and their SQL."""
    runners = list(dict.fromkeys(runner_program(name) for name in ENGINES))
    folders = dict.fromkeys(runner.parent for runner in runners)
    packages = [package for folder in folders for package in sorted(folder.glob("forkline_*"))]
    packages += sorted(ENGINE_FOLDER.glob("*/tables"))
    # Many times as fast as a pattern with "**".
    found = [walked for package in packages for walked in os.walk(package)]
    modules = [f"{folder}/{name}" for folder, _, names in found for name in names if name.endswith(".py")]
    return [*runners, *map(Path, sorted(modules))]


def _source_marks(folder: Path, without: set[str]) -> list[str]:
    """A mark for each source file. If there are too many files, a mark that changes from time to time."""
    files, is_complete = files_below(folder, SOURCES, without)
    age = [] if is_complete else [f"too many files {int(time.time() / LARGE_PROJECT_SECONDS)}"]
    return [*_marks(files), *age]


# Starts the runner of a preflight check, waits for it and stores its report.


POLL_SECONDS = 0.05
# Maximum size of the checkpoint's copy and the output of the project's code together.
MAX_BYTES = 256 * 1024 * 1024


def start_check(check: PreflightCheck, kind: str = "preflight", edits: Edits | None = None) -> RunnerProcess:
    """Start the runner, with placeholders instead of keys. Raises JobRefused, OSError."""
    project, storage = runnable(check.project), storage_of(check)
    checkpoint, request = check.checkpoint, _request(check, edits or Edits())
    checkout = check_out(project, check.commit, storage.checkout) if check.commit else None
    request = cast(
        Request,
        {
            **request,
            **permissions_of(project, checkout),
            "kind": kind,
            "job": str(check.pk),
            "folder": str(checkout.of(project.folder)) if checkout else project.folder,
        },
    )
    if checkpoint and request["checkpoint"].get("stored"):
        request["checkpoint"]["source"] = storage.stored_copy
        if not _is_on_other_host(check):
            copy = stored_bytes(checkpoint)
        else:
            root_kind = kind_of(engine_of(checkpoint.location), checkpoint.entity)
            copy = copy_to_send(checkpoint, root_kind)
            if root_kind.sends_store:
                copy = store_of_other_host(checkpoint)
                request["checkpoint"]["source"] = source_in(storage.stored_copy, checkpoint)
                # As with a copy of a saver's thread, the runner does not look at the location itself.
                request["location"] = LocationTarget(path=storage.stored_copy, store_kind="saver")
        storage.write_stored_copy(copy)
    copy_from_saver(storage, request, checkpoint)
    storage.write_request(request)
    location = checkpoint.location if checkpoint else None
    engine = engine_name(location) if location else ""
    if _is_on_other_host(check):
        # This machine has no connection of that name.
        location = None
    runner, _in_force = start_runner(
        storage, project, is_preflight=True, engine=engine, location=location, checkout=checkout
    )
    return runner


def _request(check: PreflightCheck, edits: Edits) -> Request:
    """The request of the run that is checked. Raises JobRefused."""
    if check.is_of_new_run:
        target = LocationTarget(path="", store_kind="sqlite" if check.store_kind == "sqlite" else "json")
        return request_for_run(target, check.entity, "", check.entry_point, {})
    checkpoint = check.checkpoint
    if checkpoint is None:
        raise JobRefused("preflight.checkpoint_removed")
    request = request_for(
        checkpoint, Job.Kind.RESUME, checkpoint.recorded_branch, edits, [], check.entry_point
    )
    if not (_is_on_other_host(check) or request["checkpoint"].get("stored")):
        refuse_source(checkpoint)
    if _is_on_other_host(check):
        # The path of its location leads elsewhere on this machine.
        request["checkpoint"]["stored"] = True
    return request


def _is_on_other_host(check: PreflightCheck) -> bool:
    """Whether another host reads the location of the checkpoint."""
    return check.checkpoint is not None and check.checkpoint.location.host_id != check.project.host_id


def wait_for(check: PreflightCheck, runner: RunnerProcess) -> UserMessage | None:
    """Wait until the runner exits or has to be ended. Return why it has to be ended, or None."""
    end = time.monotonic() + settings.PREFLIGHT_SECONDS
    storage = storage_of(check)
    with suppress(LostRunner):
        while runner.poll() is None:
            if time.monotonic() > end:
                return UserMessage("preflight.timed_out", {"seconds": settings.PREFLIGHT_SECONDS})
            if storage.size() > MAX_BYTES:
                return UserMessage("preflight.output_too_long")
            time.sleep(POLL_SECONDS)
    return None


def store_report(check: PreflightCheck, runner: RunnerProcess, why_ended: UserMessage | None) -> None:
    """End the runner's processes. Store its report, or why there is none."""
    storage = storage_of(check)
    processes.end_all(storage, patience=1)
    data = {event["kind"]: event["data"] for event in _events(storage)}
    redact = redactor_of(check.project)
    report, ended = data.get("preflight", {}).get("report"), data.get("ended", {})
    if report is not None:
        report = storable(report)
        try:
            msgspec.convert(report, Report)
        except msgspec.ValidationError as malformed:
            check.fail(UserMessage("preflight.malformed_report", {"reason": str(malformed)}))
        else:
            check.finish(_without_secrets(report, redact))
    elif why_ended:
        check.fail(why_ended)
    elif error := message_from(ended.get("error")):
        check.fail(redacted_message(error, redact))
    else:
        check.fail(outcome_of_exit(runner.returncode or 0).error)


def _without_secrets(report: Report, redact: Redactor) -> dict[str, Any]:
    redacted: dict[str, Any] = redact(report)
    for effect, clean in zip(report.get("effects", []), redacted.get("effects", []), strict=True):
        # Accepted effects are compared by these hashes, which look like secrets.
        clean.update({name: effect.get(name, "") for name in ("key", "digest", "given", "kind")})
        if field := effect.get("field"):
            # The name of its field may say that a value is a secret.
            clean["name"] = str(redact({field.rpartition(".")[2]: clean["name"]}).popitem()[1])
    blocks = [block for found in report.get("blocks", []) if (block := message_from(found))]
    return {**redacted, "blocks": [redacted_message(block, redact).as_data() for block in blocks]}


def _events(storage: JobStorage) -> Iterator[SpoolEvent]:
    offset, before = 0, -1
    while offset != before:
        before = offset
        events, offset = storage.read_events(offset)
        yield from events


# Runs preflight checks in threads of the server: one at a time per project, and a few in total.


logger = logging.getLogger(__name__)

# A check that has not ended after this time is stopped.
STALE_AFTER = timedelta(hours=1)
# The ids of checks that run in a thread of this process.
_running: set[Any] = set()
_running_lock = threading.Lock()


def start_in_background(check: PreflightCheck) -> None:
    """Run the check in a thread, unless a thread of this process does."""
    with _running_lock:
        if check.pk in _running:
            return
        _running.add(check.pk)
    # Another host checks the rights of the person who asked.
    arguments, name = (_run_and_log, check), f"preflight-{check.pk}"
    threading.Thread(target=copy_context().run, args=arguments, name=name, daemon=True).start()


def run_check(check: PreflightCheck) -> None:
    """Wait for a slot, then run the check. Does nothing if another process runs it."""
    storage = storage_of(check)
    storage.create()
    with storage.following() as is_ours, _slot(check):
        check.refresh_from_db()
        if not is_ours or check.has_ended:
            return
        if check.status == PreflightCheck.Status.CHECKING:
            # The process that ran it has exited.
            processes.end_all(storage, patience=1)
            storage.delete_events()
        check.mark_started()
        try:
            runner = start_check(check)
            store_report(check, runner, wait_for(check, runner))
        except (HostRefusal, OSError) as error:
            check.fail(start_error(error))
        finally:
            # They may have a copy of the checkpoint with its secrets.
            storage.delete()
    delete_stale_checks()


def _run_and_log(check: PreflightCheck) -> None:
    try:
        run_check(check)
    except Exception:
        logger.exception("running preflight check %s", check.pk)
        check.fail(UserMessage("preflight.internal_error"))
    finally:
        connection.close()
        with _running_lock:
            _running.discard(check.pk)


def _lock(name: str) -> AbstractContextManager[bool]:
    """A lock shared by all preflight checks. False if another process holds it."""
    return lock_named(f"preflight/{name}").held()


@contextmanager
def _slot(check: PreflightCheck) -> Iterator[None]:
    """Wait until no other check of the project runs and a slot is free. Holds both within the block."""
    while True:
        with ExitStack() as held:
            if held.enter_context(_lock(f"project-{check.project_id}")) and any(
                held.enter_context(_lock(f"slot-{number}")) for number in range(settings.MAX_PREFLIGHTS)
            ):
                yield
                return
        time.sleep(POLL_SECONDS)


def delete_stale_checks() -> None:
    """Delete unfinished checks whose server was killed, and files without a check."""
    stale = PreflightCheck.objects.exclude(pk__in=PreflightCheck.objects.ended())
    for check in stale.filter(created_at__lt=timezone.now() - STALE_AFTER):
        if check.pk not in _running and not storage_of(check).is_followed():
            processes.end_all(storage_of(check), patience=1)
            check.delete()
    # Listed before the rows, so that a check that begins now has one.
    found = list(storages("preflight"))
    known = {str(pk) for pk in PreflightCheck.objects.values_list("pk", flat=True)}
    for storage in found:
        if storage.name not in known and not storage.is_followed():
            storage.delete()


# A check is made by a runner that the server starts. It does not occupy a worker slot.


def preflight_checkpoint(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    commit: str = "",
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The check of a run from this checkpoint: a stored one that is up to date, or one that starts now.

    Does not wait for the check. With ``again``, a failed check is repeated. With ``only_stored``, no check is
    started, and an unsaved one is returned if there is none.
    """
    subject = {
        "checkpoint": checkpoint,
        "project": project,
        "entry_point": entry_point,
        "commit": commit,
    }
    fingerprint = fingerprint_of(checkpoint, project, entry_point, commit=commit)
    return _check_for(subject, fingerprint, again, only_stored)


def preflight_new_run(
    project: Project,
    entry_point: str,
    entity: str,
    store_kind: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The check of a new run, as ``preflight_checkpoint`` returns it.

    ``entity`` is the name of a root kind; ``store_kind`` is the kind of the write target, json or sqlite.
    """
    subject = {"project": project, "entry_point": entry_point, "entity": entity, "store_kind": store_kind}
    fingerprint = fingerprint_of(None, project, entry_point, entity, store_kind)
    return _check_for(subject, fingerprint, again, only_stored)


def _check_for(
    subject: Mapping[str, Any], fingerprint: str, again: bool, only_stored: bool
) -> PreflightCheck:
    stored = PreflightCheck.objects.filter(fingerprint=fingerprint)
    if only_stored:
        unchecked = PreflightCheck(**subject, fingerprint=fingerprint, status=PreflightCheck.Status.UNCHECKED)
        return stored.first() or unchecked
    with exclusive_transaction("preflight"):
        check = stored.first()
        if check is None:
            # Earlier checks of this subject are outdated.
            PreflightCheck.objects.ended().filter(**subject).delete()
            check = PreflightCheck.objects.create(**subject, fingerprint=fingerprint)
        elif check.is_outdated or (again and check.status == PreflightCheck.Status.FAILED):
            check.reset()
        if not check.has_ended:
            transaction.on_commit(lambda: start_in_background(check))
    return check


def unaccepted_effects(
    checkpoint: Checkpoint, project: Project, entry_point: str, commit: str = ""
) -> list[dict[str, Any]]:
    """The effects of this checkpoint that nobody has accepted for the project. Waits for the runner.

    The runner imports nothing. Raises JobRefused if the effects cannot be listed.
    """
    kind = kind_of(engine_of(checkpoint.location), checkpoint.entity)
    if not kind.may_have_effects(entry_point):
        return []
    return _asked(checkpoint, project, entry_point, "effects", commit=commit).new_effects


def ask_next_units(
    checkpoint: Checkpoint, project: Project, entry_point: str, edits: Edits, commit: str = ""
) -> list[dict[str, Any]]:
    """What would run next after these edits, for each unit (``next_by_node`` of the report).

    Waits for the runner, which runs no unit. Nothing is stored. Raises JobRefused.
    """
    report = _asked(checkpoint, project, entry_point, "next", edits, commit).report
    for block in report.get("blocks") or []:
        raise JobRefused(message_from(block) or plain_text(""))
    if not report.get("is_complete", True):
        raise JobRefused("preflight.effects_first")
    return list(report.get("next_by_node") or [])


def _asked(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    kind: str,
    edits: Edits | None = None,
    commit: str = "",
) -> PreflightCheck:
    """Run a check without storing it. Return it once its runner has ended. Raises JobRefused."""
    check = PreflightCheck(checkpoint=checkpoint, project=project, entry_point=entry_point, commit=commit)
    storage = storage_of(check)
    storage.create()
    try:
        with storage.following():
            runner = start_check(check, kind, edits)
            store_report(check, runner, wait_for(check, runner))
    except EditRefused as refused:
        raise JobRefused(refused.message) from refused
    except OSError as error:
        raise JobRefused(plain_text(error)) from error
    finally:
        storage.delete()
    if not check.is_done:
        raise JobRefused(check.error or plain_text(""))
    return check
