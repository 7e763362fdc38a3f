"""Ends the sessions behind hundreds of open sockets in every way, from this process and from others.

Passes if each affected socket closes within a second with the right code, receives nothing afterwards while
its job goes on, and no other socket closes.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder

ROUNDS, PEOPLE, SOCKETS_EACH = 20, 4, 5
SECONDS = 1.0
QUIET_SECONDS = 0.3
# One in this many rounds ends the session with a command, whose process takes long to start.
ROUNDS_BETWEEN_COMMANDS = 8


@dataclass
class Found:
    """The results. ``slowest`` is the longest time in seconds from the end of a session to the last close."""

    ends: Counter[str] = field(default_factory=Counter)
    closed: int = 0
    late: int = 0
    wrong_code: int = 0
    sent_after: int = 0
    closed_for_nothing: int = 0
    slowest: float = 0.0

    @property
    def holds(self) -> bool:
        wrong = self.late or self.wrong_code or self.sent_after or self.closed_for_nothing
        return bool(self.closed) and not wrong


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder:
        found = asyncio.run(tried(folder))
    wrong = ("late", "wrong code", "sent after", "closed for nothing")
    print_heading("sessions ended", "sockets closed", *wrong, "slowest")
    ends = ", ".join(f"{count} by {way}" for way, count in sorted(found.ends.items()))
    counts = [found.closed, found.late, found.wrong_code, found.sent_after, found.closed_for_nothing]
    print_row(ends, *counts, f"{found.slowest:.2f} s")
    return 0 if found.holds else 1


def ways() -> dict[str, Callable[[str], None]]:
    """Return the ways in which this user's session can end."""
    from django.contrib.auth.models import User
    from django.contrib.sessions.models import Session
    from django.utils import timezone

    from viewer.web.login_links import teammate

    def deactivated(name: str) -> None:
        User.objects.filter(username=name).update(is_active=False)

    def password(name: str) -> None:
        user = User.objects.get(username=name)
        user.set_password("another")
        user.save()

    def deleted(name: str) -> None:
        User.objects.filter(username=name).delete()

    def expired(name: str) -> None:
        Session.objects.filter(session_key=keys[name]).update(expire_date=timezone.now())

    def logged_out(name: str) -> None:
        Session.objects.filter(session_key=keys[name]).delete()

    def right(name: str) -> None:
        teammate(name, "view")

    def command(name: str) -> None:
        arguments = [sys.executable, "manage.py", "login_link", name, "--may", "view"]
        subprocess.run(arguments, cwd=ROOT, env=dict(os.environ), check=True, stdout=subprocess.DEVNULL)

    found = (deactivated, password, deleted, expired, logged_out, right, command)
    return {one.__name__: one for one in found}


# The session of each user, by name.
keys: dict[str, str] = {}


def log_in(name: str) -> str:
    """Log in a user who can run. Return the session cookie."""
    from django.conf import settings
    from django.test import Client

    from viewer.web.login_links import teammate

    client = Client()
    client.force_login(teammate(name, "run"))
    keys[name] = client.cookies[settings.SESSION_COOKIE_NAME].value
    return f"{settings.SESSION_COOKIE_NAME}={keys[name]}"


async def tried(folder: Path) -> Found:
    """Open sockets of several users, end one session, and record which sockets close."""
    from asgiref.sync import sync_to_async

    from viewer.models import Job, Location

    found = Found()
    (folder / "checkpoints").mkdir()
    location = await Location.objects.acreate(path=str(folder / "checkpoints"), store_kind="json")
    job = await Job.objects.acreate(kind="fork", location=location, branch="what-if", status="running")
    speaking = asyncio.create_task(write_events(job))
    in_thread: Any = sync_to_async
    for number in range(ROUNDS):
        people = {}
        for one in range(PEOPLE):
            name = f"person-{number}-{one}"
            cookie = await in_thread(log_in)(name)
            people[name] = [await opened(cookie, job, location) for _ in range(SOCKETS_EACH)]
        name = random.choice(list(people))
        allowed = {key: way for key, way in ways().items() if key != "command"}
        way = "command" if number % ROUNDS_BETWEEN_COMMANDS == 0 else random.choice(list(allowed))
        found.ends[way] += 1
        await in_thread(ways()[way], thread_sensitive=False)(name)
        began = time.monotonic()
        await asyncio.gather(*(see_closed(socket, way, began, found) for socket in people.pop(name)))
        for sockets in people.values():
            for socket in sockets:
                found.closed_for_nothing += await is_closed(socket)
                await socket.disconnect()
    speaking.cancel()
    return found


async def write_events(job: Any) -> None:
    """Write events of the job continuously, so that every open socket receives something."""
    from django.utils import timezone

    from viewer.models import JobEvent

    seq = 0
    while True:
        seq += 1
        await JobEvent.objects.acreate(job=job, seq=seq, kind="tool_started", at=timezone.now(), data={})
        await asyncio.sleep(0.2)


async def opened(cookie: str, job: Any, location: Any) -> Any:
    """Return a socket of a job page, a job bar or a location page that has received its first message."""
    from urllib.parse import urlsplit

    from channels.testing import WebsocketCommunicator
    from django.conf import settings

    from checkpoint_site.asgi import application

    paths = [f"/ws/jobs/{job.pk}/?show=page", f"/ws/jobs/{job.pk}/", f"/ws/locations/{location.uid}/"]
    origin = settings.ALLOWED_ORIGINS[0]
    headers = {"host": urlsplit(origin).netloc, "origin": origin, "cookie": cookie}
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    socket = WebsocketCommunicator(application, random.choice(paths), fields)
    await socket.connect(timeout=30)
    await socket.receive_from(timeout=30)
    return socket


async def see_closed(socket: Any, way: str, began: float, found: Found) -> None:
    """Record when and with which code the socket closes, and whether anything follows."""
    code = 4403 if way in ("right", "command") else 4401
    while (output := await socket.receive_output(timeout=30))["type"] == "websocket.send":
        pass
    took = time.monotonic() - began
    found.slowest = max(found.slowest, took)
    found.closed += 1
    found.late += took > SECONDS
    found.wrong_code += output["code"] != code
    found.sent_after += not await socket.receive_nothing(timeout=QUIET_SECONDS)


async def is_closed(socket: Any) -> bool:
    """Return whether a socket that should be open has been closed."""
    while not await socket.receive_nothing(timeout=0.01, interval=0.005):
        if (await socket.receive_output())["type"] == "websocket.close":
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
