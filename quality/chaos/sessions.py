"""Ends the sessions or rights behind hundreds of open sockets in every way, from this process and others.

Passes if each affected socket closes within a second with the right code, receives nothing afterwards while
its job goes on, no other socket closes, and no request of the open page is answered as before.
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

ROUNDS, PEOPLE, SOCKETS_EACH = 24, 4, 5
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
    requests: int = 0
    still_allowed: int = 0
    slowest: float = 0.0

    @property
    def holds(self) -> bool:
        wrong = self.late or self.wrong_code or self.sent_after or self.closed_for_nothing
        return bool(self.closed) and not wrong and not self.still_allowed


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder:
        found = asyncio.run(tried(folder))
    wrong = ("late", "wrong code", "sent after", "closed for nothing", "slowest")
    print_heading("sessions ended", "sockets closed", *wrong, "requests", "still allowed")
    ends = ", ".join(f"{count} by {way}" for way, count in sorted(found.ends.items()))
    counts = [found.closed, found.late, found.wrong_code, found.sent_after, found.closed_for_nothing]
    print_row(ends, *counts, f"{found.slowest:.2f} s", found.requests, found.still_allowed)
    return 0 if found.holds else 1


def ways() -> dict[str, Callable[[str], None]]:
    """Return the ways in which this user's session or rights can end."""
    return {one.__name__: one for one in (*ends_of_sessions(), *ends_of_rights())}


def ends_of_sessions() -> list[Callable[[str], None]]:
    from django.contrib.auth.models import User
    from django.contrib.sessions.models import Session
    from django.utils import timezone

    from viewer.records.accounts import end_sessions

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

    def ended(name: str) -> None:
        end_sessions(User.objects.get(username=name))

    return [deactivated, password, deleted, expired, logged_out, ended]


def ends_of_rights() -> list[Callable[[str], None]]:
    from django.contrib.auth.models import User

    from viewer.models import Team
    from viewer.records.accounts import teammate

    def right(name: str) -> None:
        teammate(name, "view")

    def roles_taken(name: str) -> None:
        user = User.objects.get(username=name)
        user.roles.all().delete()
        user.teams.clear()

    def team_deleted(name: str) -> None:
        user = User.objects.get(username=name)
        Team.objects.filter(members=user).delete()
        user.roles.all().delete()

    def command(name: str) -> None:
        arguments = [sys.executable, "manage.py", "login_link", name, "--may", "view"]
        subprocess.run(arguments, cwd=ROOT, env=dict(os.environ), check=True, stdout=subprocess.DEVNULL)

    return [right, roles_taken, team_deleted, command]


# The ways after which a session goes on, with other rights.
OF_RIGHTS = ("right", "roles_taken", "team_deleted", "command")
# The session of each user, by name.
keys: dict[str, str] = {}


def log_in(name: str, location: Any, number: int) -> str:
    """Log in a user who can run: everywhere, on the location, or in a team. Return the session cookie."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from viewer.models import Level, Role, Team
    from viewer.records.accounts import teammate

    client = Client()
    if number % 3 == 0:
        user = teammate(name, "run")
    else:
        user = User.objects.create_user(name)
        team = Team.objects.create(name=f"team of {name}") if number % 3 == 2 else None
        if team:
            team.members.add(user)
        Role.objects.create(user=None if team else user, team=team, location=location, level=Level.ADMIN)
    client.force_login(user)
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
            cookie = await in_thread(log_in)(name, location, one)
            people[name] = [await opened(cookie, job, location) for _ in range(SOCKETS_EACH)]
        others = sorted(ways().keys() - {"command"})
        # The last of them.
        by_command = number % ROUNDS_BETWEEN_COMMANDS == ROUNDS_BETWEEN_COMMANDS - 1
        way = "command" if by_command else random.choice(others)
        # The right of the others is not the one on all locations.
        name = random.choice(list(people) if way not in ("right", "command") else [f"person-{number}-0"])
        found.ends[way] += 1
        await in_thread(ways()[way], thread_sensitive=False)(name)
        began = time.monotonic()
        requests = asyncio.create_task(
            in_thread(request_again, thread_sensitive=False)(name, job, way, found)
        )
        await asyncio.gather(*(see_closed(socket, way, began, found) for socket in people.pop(name)))
        await requests
        for sockets in people.values():
            for socket in sockets:
                found.closed_for_nothing += await is_closed(socket)
                await socket.disconnect()
    speaking.cancel()
    return found


def request_again(name: str, job: Any, way: str, found: Found) -> None:
    """Send what the open page of somebody sends, and count what is answered as before."""
    from django.conf import settings
    from django.test import Client

    client = Client(headers={"Host": f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"})
    client.cookies[settings.SESSION_COOKIE_NAME] = keys[name]
    location, page = job.location.get_absolute_url(), job.get_absolute_url()
    # Whoever may still view opens pages.
    pages = () if way in ("right", "command") else (location, page, f"{page}wait/", f"{page}timeline/")
    answers = [client.get(address) for address in pages]
    answers += [client.post(f"{page}{act}/", {"text": "x"}) for act in ("cancel", "start", "give-up")]
    answers.append(client.post(f"{location}refresh/") if pages else answers[-1])
    found.requests += len(answers)
    refused = [
        one.status_code in (403, 404) or one.headers.get("Location", "").startswith("/login/")
        for one in answers
    ]
    job.refresh_from_db()
    found.still_allowed += refused.count(False) + bool(job.cancel_requested_at)


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
    code = 4403 if way in OF_RIGHTS else 4401
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
