"""Runs preflight checks in threads of the server: one at a time per project, and a few in total."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from viewer.jobs.execution import processes
from viewer.jobs.execution.starting.start import JobRefused, start_error
from viewer.jobs.preflight.runner import POLL_SECONDS, start_check, store_report, wait_for
from viewer.jobs.storage import preflight_storages, storage_of
from viewer.locks import lock_named
from viewer.messages.message import UserMessage
from viewer.models import PreflightCheck

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
    threading.Thread(target=_run_and_log, args=(check,), name=f"preflight-{check.pk}", daemon=True).start()


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
        except (JobRefused, OSError) as error:
            check.fail(start_error(error))
            return
        store_report(check, runner, wait_for(check, runner))
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
    known = {str(pk) for pk in PreflightCheck.objects.values_list("pk", flat=True)}
    for storage in preflight_storages():
        if storage.name not in known and not storage.is_followed():
            storage.delete()
