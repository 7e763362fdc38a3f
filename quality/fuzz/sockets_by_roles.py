"""Opens every socket with each role, about what one may and may not see, and sends it random messages.

Passes if the socket of another team's object closes as that of one that does not exist, if no socket receives
anything when another team's rows change, and if no message has a secret or a name of the other team.
"""

import asyncio
import logging
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from quality.fuzz.routes_by_roles import JUNK, Sender, Stage, senders, staged
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

ROUNDS = 3
SECONDS = 30
# How long nothing may follow a change of another team's rows. Pages are served after a few hundredths.
QUIET_SECONDS = 0.4
SENT = ('{"type":"subscribe"}', "[" * 5000, "\x00", "x" * 70_000, '{"id":"*"}', b"\xff\x00")
NAMES = ("after", "show", "may", "shown", "token", "sesame", "x")


@dataclass(frozen=True)
class Opened:
    """What a new socket received: its first message, or the code that it was closed with."""

    text: str = ""
    code: int = 0


def socket_of(sender: Sender, path: str) -> Any:
    """Return a socket as the sender's browser opens it."""
    from channels.testing import WebsocketCommunicator
    from django.conf import settings

    from checkpoint_site.asgi import application

    origin = settings.ALLOWED_ORIGINS[0]
    cookie = "; ".join(f"{name}={value.value}" for name, value in sender.client.cookies.items())
    headers = {"host": urlsplit(origin).netloc, "origin": origin, "cookie": cookie}
    if sender.is_program:
        headers["authorization"] = sender.client.defaults.get("HTTP_AUTHORIZATION", "")
    fields = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return WebsocketCommunicator(application, path, fields)


async def first_of(socket: Any) -> Opened:
    """Connect, and return what arrives first."""
    await socket.connect(timeout=SECONDS)
    output = await socket.receive_output(timeout=SECONDS)
    return Opened(output.get("text") or "", output.get("code") or 0)


async def attacked(stage: Stage, sender: Sender, chance: random.Random, counts: Counter[str]) -> list[str]:
    """Open each socket about own rows, the other team's, and none. Return what was wrong."""
    from asgiref.sync import sync_to_async

    from viewer.models import Job

    own_job = await Job.objects.filter(location=stage.own).afirst()
    other_job = await Job.objects.filter(location=stage.other).afirst()
    assert own_job and other_job
    open_ones, wrong = list[Any](), list[str]()
    for kind, own, other in (
        ("locations", stage.own.uid, stage.other.uid),
        ("jobs", own_job.pk, other_job.pk),
        ("shared", "x" * 43, stage.other.uid),
    ):
        query = urlencode([(chance.choice(NAMES), chance.choice(JUNK)) for _ in range(3)], errors="replace")
        sockets = [socket_of(sender, f"/ws/{kind}/{key}/?{query}") for key in (own, other, uuid4())]
        found = [await first_of(socket) for socket in sockets]
        open_ones += [socket for socket, one in zip(sockets, found, strict=True) if not one.code]
        counts["sockets"] += len(found)
        counts["refused"] += sum(bool(one.code) for one in found)
        wrong += [f"{sender.name}, {kind}?{query[:200]}: {fault}" for fault in faults_of(sender, found)]
    home = socket_of(sender, "/ws/home/")
    counts["sockets"] += 1
    if not (await first_of(home)).code:
        open_ones.append(home)
    for socket in open_ones:
        message = chance.choice(SENT)
        await socket.send_to(**{"bytes_data" if isinstance(message, bytes) else "text_data": message})
        counts["messages sent"] += 1
    await sync_to_async(changed_by_others)(stage, other_job)
    await asyncio.sleep(QUIET_SECONDS)
    for socket in open_ones:
        while not socket.output_queue.empty():
            output = await socket.receive_output(timeout=SECONDS)
            wrong.append(f"{sender.name}: received {str(output)[:300]} after another team's change")
        counts["quiet"] += 1
        await socket.disconnect()
    return wrong


def faults_of(sender: Sender, found: list[Opened]) -> list[str]:
    """Return what is wrong with the first messages about one's own object, another team's, and none."""
    from tests.views.access.test_roles import HIDDEN
    from tests.views.forking import SECRET

    own, other, missing = found
    faults = [f"{other} instead of {missing}"] if other != missing else []
    if not sender.level and own != missing:
        faults.append(f"{own} without a role")
    if any(HIDDEN in one.text or SECRET in one.text for one in found):
        faults.append("names the other team")
    return faults


def changed_by_others(stage: Stage, job: Any) -> None:
    """Change rows of the other team: an event and a state of a job, a question, a comment, the location."""
    from django.utils import timezone

    from viewer.models import Comment, Job, JobEvent, Question

    number = JobEvent.objects.filter(job=job).count() + 1
    JobEvent.objects.create(job=job, seq=number, kind="tool_started", at=timezone.now(), data={})
    made = Job.objects.create(kind=Job.Kind.FORK, location=stage.other, status=Job.Status.RUNNING)
    Question.objects.create(job=made, number=1, kind="text_input", prompt="Which?")
    Comment.objects.create(location_uid=stage.other.uid, run_key="x", text="Greener.")
    stage.other.mark_changed()


async def attack_all(stage: Stage, everyone: list[Sender], rounds: int) -> int:
    """Attack with each sender. Print a row for each. Return 1 if a check failed."""
    columns = ("sockets", "refused", "messages sent", "quiet")
    print_heading("sender", *columns, "wrong")
    all_wrong = list[str]()
    for number, sender in enumerate(everyone):
        counts, wrong = Counter[str](), list[str]()
        for one in range(rounds):
            wrong += await attacked(stage, sender, random.Random(1000 * number + one), counts)
        print_row(sender.name, *(counts[column] for column in columns), len(wrong))
        all_wrong += wrong
    print(*all_wrong[:40], sep="\n")
    return int(bool(all_wrong))


def prepared(folder: Path) -> tuple[Stage, list[Sender]]:
    """Return the locations and those who open sockets. Needs Django to be set up."""
    stage = staged(folder)
    return stage, senders(stage, folder)


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    logging.disable()
    with temporary_data_folder() as folder:
        from viewer.host.permitted import permit
        from viewer.host.worker import claim_unregistered

        claim_unregistered()
        permit(str(folder))
        return asyncio.run(attack_all(*prepared(folder), ROUNDS))


if __name__ == "__main__":
    sys.exit(main())
