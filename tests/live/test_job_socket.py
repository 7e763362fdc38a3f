"""The socket of a job sends each event once and in order, also after reconnecting."""

import json
import re
import uuid
from pathlib import Path

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from pytest_django import Settings

from tests.live.conftest import Connect, event
from tests.messages.catalogue import write_catalogue
from viewer.models import Job, JobEvent
from viewer.presentation.jobs.events import NOT_RUN
from viewer.web.live.feeds import LOGGED_OUT, NOT_THERE

SEQ = re.compile(r'"event":(\d+)')
LAST = re.compile(r'"seq":(\d+)')


def address(job: Job, after: int = 0) -> str:
    return f"/ws/jobs/{job.pk}/?show=page&after={after}"


def html_of(message: str) -> str:
    """Return the fragments of the page in a message."""
    return str(json.loads(message).get("html", ""))


async def received(socket: WebsocketCommunicator, last: int) -> list[int]:
    """Return the events that the socket sends until it reports the last one."""
    seqs: list[int] = []
    while True:
        message = await socket.receive_from(timeout=30)
        seqs += [int(seq) for seq in SEQ.findall(message)]
        if LAST.findall(message) == [str(last)]:
            return seqs


@pytest.mark.parametrize("path", ["/ws/jobs/{job}/", "/ws/locations/{location}/"])
async def test_visitors_receive_only_the_logged_out_message(connect: Connect, job: Job, path: str) -> None:
    path = path.format(job=job.pk, location=job.location.uid)
    socket = connect(path, as_cookie="")
    assert (await socket.connect())[0] is True
    assert await socket.receive_output() == {"type": "websocket.close", "code": LOGGED_OUT}
    assert (await connect(path).connect())[0] is True


@pytest.mark.parametrize(
    "origin",
    [
        f"http://127.0.0.1:{settings.PORT + 1}",
        "http://127.0.0.1",
        f"https://127.0.0.1:{settings.PORT}",
        "http://attacker.example",
        "null",
    ],
)
async def test_another_origin_or_port_is_refused(connect: Connect, job: Job, origin: str) -> None:
    assert (await connect(address(job), origin=origin).connect())[0] is False


async def test_a_socket_for_another_host_is_refused(connect: Connect, job: Job) -> None:
    path = f"/ws/jobs/{job.pk}/"
    for host in ("", "127.0.0.1", f"127.0.0.1:{settings.PORT + 1}", f"evil.test:{settings.PORT}"):
        assert (await connect(path, host=host).connect())[0] is False
    assert (await connect(path).connect())[0] is True


@pytest.mark.parametrize("kind", ["jobs", "locations"])
async def test_a_socket_of_an_unknown_job_is_refused(connect: Connect, kind: str) -> None:
    socket = connect(f"/ws/{kind}/{uuid.uuid4()}/")
    await socket.connect()
    assert await socket.receive_output() == {"type": "websocket.close", "code": NOT_THERE}


@pytest.mark.parametrize("path", ["/", "/ws/", "/ws/jobs/1/", "/ws/jobs/../jobs/", "/jobs/"])
async def test_an_unknown_socket_address_is_refused(connect: Connect, path: str) -> None:
    assert (await connect(path).connect())[0] is False


async def test_earlier_events_are_replayed_and_new_ones_follow(connect: Connect, job: Job) -> None:
    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(1, 6)])
    socket = connect(address(job))
    await socket.connect()
    assert await received(socket, last=5) == [1, 2, 3, 4, 5]
    await event(job, 6).asave()
    assert await received(socket, last=6) == [6]
    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(7, 10)])
    assert await received(socket, last=9) == [7, 8, 9]


async def test_a_reconnected_socket_continues_after_the_last_event(connect: Connect, job: Job) -> None:
    first = connect(address(job))
    await first.connect()
    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(1, 51)])
    seen = await received(first, last=50)
    await first.disconnect()
    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(51, 102)])
    second = connect(address(job, after=50))
    await second.connect()
    seen += await received(second, last=101)
    assert seen == list(range(1, 102))


async def test_a_slow_reader_receives_every_event(connect: Connect, job: Job) -> None:
    socket = connect(address(job))
    await socket.connect()
    for first in range(1, 1501, 5):
        await JobEvent.objects.abulk_create([event(job, seq) for seq in range(first, first + 5)])
    assert await received(socket, last=1500) == list(range(1, 1501))


async def test_two_readers_receive_every_event(connect: Connect, job: Job) -> None:
    sockets = [connect(address(job)), connect(address(job, after=2))]
    for socket in sockets:
        await socket.connect()
    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(1, 5)])
    assert await received(sockets[0], last=4) == [1, 2, 3, 4]
    assert await received(sockets[1], last=4) == [3, 4]


async def test_the_end_is_sent_last_and_closes_the_socket(connect: Connect, job: Job) -> None:
    socket = connect(address(job))
    await socket.connect()
    await socket.receive_from()
    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(1, 3)])
    await event(job, 3, "task_started", task="a").asave()
    await Job.objects.filter(pk=job.pk).aupdate(status=Job.Status.FAILED, error="the <b>tool</b> broke")
    messages = []
    while (output := await socket.receive_output(timeout=30))["type"] == "websocket.send":
        messages.append(output["text"])
    assert output == {"type": "websocket.close", "code": 1000}
    assert LAST.findall(messages[-1]) == ["3"]
    html = html_of(messages[-1])
    assert "the &lt;b&gt;tool&lt;/b&gt; broke" in html
    assert 'class="job-step is-failed"' in html and "is-running" not in html
    assert sum("is-failed" in message and "job-outcome" in message for message in messages) == 1


async def test_streamed_text_is_appended_to_its_row(connect: Connect, job: Job) -> None:
    await event(job, 1, "text", text="The claim", agent="Checker").asave()
    socket = connect(address(job, after=1))
    await socket.connect()
    await socket.receive_from()
    await event(job, 2, "text", text=" holds <i>", agent="Checker").asave()
    message = json.loads(await socket.receive_from(timeout=30))
    assert message == {
        "job": str(job.pk),
        "seq": 2,
        "text": "The claim holds <i>",
        "added_to": 1,
        "added": " holds <i>",
    }
    await event(job, 3, "text", text="Another", agent="Writer").asave()
    assert SEQ.findall(await socket.receive_from(timeout=30)) == ["3"]


async def test_the_bar_receives_no_event_rows(connect: Connect, job: Job) -> None:
    socket = connect(f"/ws/jobs/{job.pk}/")
    await socket.connect()
    await socket.receive_from()
    await event(job, 1, "task_started", task="a", position=1, agent="Researcher").asave()
    message = await socket.receive_from(timeout=30)
    assert "Forking to <strong>what-if</strong></a>: Research" in " ".join(html_of(message).split())
    assert "rows" not in json.loads(message)
    assert "pinned" in NOT_RUN


async def test_an_invalid_after_parameter_replays_from_the_start(connect: Connect, job: Job) -> None:
    await event(job, 1).asave()
    for after in ("x", "-1", "9" * 30, "%00"):
        socket = connect(f"/ws/jobs/{job.pk}/?show=page&after={after}")
        assert (await socket.connect())[0]
        assert await received(socket, last=1) == [1]


async def test_messages_are_in_the_language_of_their_reader(
    connect: Connect, job: Job, tmp_path: Path, settings: Settings
) -> None:
    text = "The project's folder cannot be opened: %(error)s"
    german = {text: "Kein Zugang: %(error)s"}
    settings.LOCALE_PATHS = [write_catalogue(tmp_path / "locale", "de", german)]
    message = {"code": "runner.project_folder_failed", "values": {"error": "gone"}}
    await event(job, 1, "warning", message=message).asave()
    for language, expected in {"de": "Kein Zugang: gone", "en": "cannot be opened: gone"}.items():
        socket = connect(address(job), language=language)
        await socket.connect()
        assert expected in await socket.receive_from(timeout=30)
