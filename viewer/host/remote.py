"""Requests to other hosts: a row with its reply, a queue of Procrastinate for each host, and NOTIFY.

Only PostgreSQL has this queue. A job of it names a request's row, is never repeated, and is deleted once it
is done. The row decides: a host claims it before it answers, and a sender that gives up deletes it first.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, OperationalError, close_old_connections, connection
from django.db.models.functions import Now
from procrastinate import PsycopgConnector
from procrastinate.contrib.django import app as queue_app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException

from viewer import host_requests as asked
from viewer import postgresql
from viewer.host.answers import answer
from viewer.host.permitted import checked
from viewer.host_requests import HostAway, HostRefusal, Request, decoded, decoded_reply, encoded
from viewer.messages.message import UserMessage, message_from
from viewer.models import Host
from viewer.models.hosts import HostRequest
from viewer.records.audit import ActorKind, acting_for, actor_as_data

logger = logging.getLogger(__name__)

# Until a host has to begin to answer, and to have answered while it is up.
TAKEN_SECONDS, ANSWER_SECONDS = 3.0, 120.0
# The same soon after a host has not answered: a page with several requests does not wait for each of them.
SILENT_TAKEN_SECONDS, SILENT_SECONDS = 0.5, 15.0
# Between two looks at the row, in case that no notification arrives, such as behind a pooler of connections.
POLL_SECONDS = 0.25
# Requests that a host answers at once. Others of its worker wait, such as for a slow disk.
AT_ONCE = 8
# The age of a request whose asker has ended.
OLD_SECONDS = 3600
# Before the queue is opened again after a failure.
RETRY_SECONDS = 1.0


# When hosts did not begin to answer, by primary key, on the monotonic clock.
_silent_at: dict[int, float] = {}


# Ask another host.


def answer_of(host: Host, request: Request[Any]) -> Any:
    """Return the reply of another host. Raises HostAway if it does not answer, and its HostRefusal."""
    if not Host.objects.live().filter(pk=host.pk).exists():
        raise HostAway("host.away", host=host.name)
    if not connection.in_atomic_block:
        return _asked(host, request)
    # The host sees nothing of this transaction before it ends, so the request is stored in another one.
    with ThreadPoolExecutor(1, thread_name_prefix="asking") as other:
        return other.submit(copy_context().run, _asked_and_closed, host, request).result()


def _asked_and_closed(host: Host, request: Request[Any]) -> Any:
    try:
        return _asked(host, request)
    finally:
        connection.close()


def _asked(host: Host, request: Request[Any]) -> Any:
    data, actor = encoded(request), actor_as_data()
    row = HostRequest(host=host, kind=type(request).__name__, data=data, actor=actor)
    with _listening(_channel(row.pk)) as session:
        row.save(force_insert=True)
        try:
            _defer(row)
            _wait(row, host, session)
        finally:
            HostRequest.objects.filter(pk=row.pk).delete()
    reply = bytes(row.reply or b"")
    if row.refused_as:
        kind: type[HostRefusal] = getattr(asked, row.refused_as, HostRefusal)
        message = message_from(decoded(reply, Any))
        raise kind.saying(message or UserMessage("host.failed", {"host": host.name}))
    return decoded_reply(reply, request)


def _defer(row: HostRequest) -> None:
    """Put the request into the queue of its host. Raises DatabaseError."""
    try:
        queue_app.configure_task("answer_request", queue=_queue(row.host_id)).defer(key=str(row.pk))
    except ConnectorException as error:
        raise OperationalError(str(error.__cause__ or error)) from error


def _wait(row: HostRequest, host: Host, session: Any) -> None:
    """Return once the row has a reply. Raises HostAway."""
    began = time.monotonic()
    is_silent = began - _silent_at.get(host.pk, float("-inf")) < SILENT_SECONDS
    taken_seconds = SILENT_TAKEN_SECONDS if is_silent else TAKEN_SECONDS
    while True:
        # The connection is this thread's own. Its first notification is the reply.
        with connection.wrap_database_errors:
            for _notification in session.notifies(timeout=POLL_SECONDS, stop_after=1):
                pass
        row.refresh_from_db(fields=["taken_at", "reply", "refused_as"])
        if row.reply is not None:
            _silent_at.pop(host.pk, None)
            return
        waited = time.monotonic() - began
        is_given_up = waited > taken_seconds and not row.taken_at
        if is_given_up and HostRequest.objects.filter(pk=row.pk, taken_at=None).delete()[0]:
            if not is_silent:
                # A host that is only slow is waited for again, even if something asks it all the time.
                _silent_at[host.pk] = time.monotonic()
            raise HostAway("host.away", host=host.name)
        if waited > TAKEN_SECONDS and not Host.objects.live().filter(pk=host.pk).exists():
            raise HostAway("host.away", host=host.name)
        if waited > ANSWER_SECONDS:
            raise HostAway("host.slow", host=host.name)


@contextmanager
def _listening(channel: str) -> Iterator[Any]:
    """Yield a connection of psycopg that receives the notifications of a channel within the block."""
    if postgresql.has_pooler():
        with postgresql.connected() as session:
            session.execute(f'LISTEN "{channel}"')
            yield session
        return
    with connection.cursor() as cursor:
        cursor.execute(f'LISTEN "{channel}"')
    try:
        yield connection.connection
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'UNLISTEN "{channel}"')


def _channel(key: UUID) -> str:
    return f"forkline_reply_{key.hex}"


def _queue(host: int) -> str:
    return f"forkline_host_{host}"


# Answer the requests of others.


@contextmanager
def answering(host: Host) -> Iterator[None]:
    """Answer the requests of other machines in a thread within the block."""
    loop = asyncio.new_event_loop()
    stopping = threading.Event()
    thread = threading.Thread(target=_serve, args=(loop, host, stopping), name="answering", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join()


def _serve(loop: asyncio.AbstractEventLoop, host: Host, stopping: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not stopping.is_set():
        try:
            loop.run_until_complete(_answer_all(host))
        except asyncio.CancelledError:
            break
        except Exception as error:
            # Such as a restart of PostgreSQL. Its message says all that a person can use.
            logger.warning("answering failed: %s", error)
            stopping.wait(RETRY_SECONDS)
    loop.close()


def forget_given_up() -> None:
    """Delete requests of this host whose asker has ended, and jobs of requests that were given up."""
    old = HostRequest.objects.filter(created_at__lt=Now() - timedelta(seconds=OLD_SECONDS))
    old.filter(host__in=Host.objects.here()).delete()
    with connection.cursor() as cursor:
        for host in Host.objects.here():
            cursor.execute(
                "DELETE FROM procrastinate_jobs WHERE queue_name = %s AND NOT EXISTS"
                " (SELECT 1 FROM viewer_hostrequest WHERE id = (args->>'key')::uuid)",
                [_queue(host.pk)],
            )


async def _answer_all(host: Host) -> None:
    """Answer until the task is cancelled. Raises the error of the database."""
    # One connection waits for notifications, and one takes requests.
    parameters = {**connector_params("default"), **settings.DATABASE_DIRECT}
    connector = PsycopgConnector(kwargs=parameters, min_size=2, max_size=4)
    app = queue_app.with_connector(connector)
    async with app.open_async():
        await app.run_worker_async(
            queues=[_queue(host.pk)],
            name=host.name,
            concurrency=AT_ONCE,
            delete_jobs="always",
            fetch_job_polling_interval=RETRY_SECONDS,
            install_signal_handlers=False,
        )


@queue_app.task(name="answer_request")
def answer_request(key: str) -> None:
    """Answer the request of this row, once, unless its sender has given up."""
    close_old_connections()
    try:
        _answer_row(UUID(key))
    except DatabaseError as error:
        # The sender gives up.
        logger.warning("a request was not answered: %s", error)
        connection.close()


def _answer_row(key: UUID) -> None:
    rows = HostRequest.objects.filter(pk=key, host__in=Host.objects.here())
    if not rows.filter(taken_at=None).update(taken_at=Now()):
        return
    row = rows.get()
    reply, refused_as = _reply_to(row)
    rows.update(reply=reply, refused_as=refused_as)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [_channel(key)])


def _reply_to(row: HostRequest) -> tuple[bytes, str]:
    """Return the reply as bytes, or the message of a refusal and the name of its class."""
    try:
        kind = getattr(asked, row.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, Request)):
            raise HostRefusal("host.unknown_request", kind=row.kind)
        with acting_for(row.actor or {"kind": ActorKind.SERVER, "name": ""}):
            return encoded(answer(checked(decoded(bytes(row.data), kind)))), ""
    except HostRefusal as refusal:
        return encoded(refusal.message.as_data()), type(refusal).__name__
    except Exception:
        logger.exception("answering %s", row.kind)
        message = UserMessage("host.failed", {"host": str(row.host)})
        return encoded(message.as_data()), HostRefusal.__name__
