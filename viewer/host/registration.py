"""Registers this machine as a host, and writes its heartbeats while its worker runs."""

import logging
import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.data_folder.failures import folder_fault, log_failure
from viewer.engines import all_engines
from viewer.host.jobs.sandbox import launchers
from viewer.host.projects import engine_version
from viewer.messages.message import UserFacingError, plain_text
from viewer.models import Host, Pool, Project
from viewer.models.hosts import DEFAULT_NAME, HOST_ID_FILE, MAX_MISSED, heartbeat_seconds, instance_here

logger = logging.getLogger(__name__)


class HostNameTaken(UserFacingError):
    """Another machine has this name. The message says which, and what to do."""

    def __init__(self, host: Host) -> None:
        text = _(
            "The name %(name)s belongs to another machine, %(address)s, whose worker is running. Choose"
            " another name with --host, or stop that worker."
        )
        super().__init__(plain_text(text % {"name": host.name, "address": host.address}))


def register(name: str | None, slots: int, pools: Sequence[str] = ()) -> Host:
    """Return the host of this machine, which is up from now on, and only in these pools.

    Without a name it keeps the one it has.

    A machine that has replaced another one, whose worker is not running, continues under its name. Raises
    HostNameTaken.
    """
    _create_host_id()
    host = _row_to_register(name)
    may_have = Host.objects.filter(pk=host.pk)
    if settings.IS_DATABASE_SHARED:
        age = timedelta(seconds=heartbeat_seconds() * MAX_MISSED)
        is_free = Q(instance__in=("", instance_here())) | Q(is_up=False) | Q(seen_at__lt=Now() - age)
        may_have = may_have.filter(is_free)
    # Is seen from now on, so that another machine that registers at the same time is refused.
    if not may_have.update(instance=instance_here(), is_up=True, seen_at=Now(), **_facts(slots)):
        if name and host.name != name:
            # Another machine has just registered in the row that none had.
            return register(name, slots, pools)
        raise HostNameTaken(host)
    # A data folder has one name.
    Host.objects.filter(instance=instance_here()).exclude(pk=host.pk).update(instance="")
    if name and name != host.name:
        Host.objects.filter(pk=host.pk).update(name=name)
    host.refresh_from_db()
    host.pools.set([Pool.objects.get_or_create(name=one)[0] for one in pools])
    beat(host)
    return host


def claim_unregistered() -> bool:
    """Make this machine the host that no machine has been yet. Return False if there is none."""
    _create_host_id()
    if not Host.objects.exists():
        Host.objects.get_or_create(name=DEFAULT_NAME)
    free = Host.objects.filter(instance="", seen_at=None).order_by("pk").first()
    return free is not None and bool(
        Host.objects.filter(pk=free.pk, instance="").update(instance=instance_here())
    )


def _create_host_id() -> None:
    """Create the file that tells this data folder from those of other machines."""
    path = Path(settings.DATA_DIR) / HOST_ID_FILE
    if path.exists():
        return
    # Linked once it is whole: another worker may read it.
    with NamedTemporaryFile("w", dir=settings.DATA_DIR) as file, suppress(FileExistsError):
        file.write(uuid4().hex)
        file.flush()
        path.hardlink_to(file.name)


def _row_to_register(name: str | None) -> Host:
    """Return the row with this name, else this machine's, else one that no machine has, else a new one."""
    if name and (named := Host.objects.filter(name=name).first()):
        return named
    free = Host.objects.filter(instance="", seen_at=None).order_by("pk")
    if found := Host.own() or free.first():
        return found
    return Host.objects.get_or_create(name=name or DEFAULT_NAME)[0]


def _facts(slots: int) -> dict[str, Any]:
    """Return what a page shows of this machine."""
    interpreters = {project.interpreter for project in Project.objects.here()}
    found = {
        engine.name: sorted({engine_version(Path(path), engine.name) for path in interpreters} - {""})
        for engine in all_engines()
    }
    return {
        "address": socket.gethostname(),
        "version": settings.VERSION,
        "python_version": platform.python_version(),
        "engines": {name: versions for name, versions in found.items() if versions},
        "folders": [str(root) for root in settings.CHECKPOINT_ROOTS],
        "slots": slots,
        "launchers": launchers(),
    }


def beat(host: Host) -> bool:
    """Write a heartbeat. Return False if another machine has taken the name."""
    before = timezone.now()
    database_now = Host.objects.filter(pk=host.pk).values_list(Now(), flat=True).first() or before
    now = before + (timezone.now() - before) / 2
    mine = Host.objects.filter(pk=host.pk, instance=instance_here())
    written = mine.update(
        seen_at=Now(),
        is_up=True,
        fault=folder_fault(),
        load=os.getloadavg()[0] / (os.cpu_count() or 1),
        clock_difference=(now - database_now).total_seconds(),
    )
    return bool(written)


@contextmanager
def heartbeats(host: Host, stop: Callable[[], None]) -> Iterator[None]:
    """Write heartbeats in a thread within the block.

    Calls ``stop`` if another machine has taken the name, which raises HostNameTaken at the end of the block.
    """
    ended, is_taken = threading.Event(), threading.Event()

    def write() -> None:
        while not ended.wait(heartbeat_seconds()):
            try:
                if not beat(host):
                    is_taken.set()
                    stop()
                    break
            except Exception as error:
                # The next one may succeed.
                log_failure(logger, "the heartbeat", error)
                connection.close()
        connection.close()

    thread = threading.Thread(target=write, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _leave(host)
    if is_taken.is_set():
        raise HostNameTaken(Host.objects.get(pk=host.pk))


def _leave(host: Host) -> None:
    """Record that this machine's worker has ended."""
    try:
        Host.objects.filter(pk=host.pk, instance=instance_here()).update(is_up=False)
    except (DatabaseError, OSError) as error:
        # Its data folder or its database may be gone. Its missing heartbeats say the same.
        logger.warning("leaving failed: %s", error)
