"""``manage.py up``: the web server and a worker on this machine, and a link that logs in."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.data_folder import identity, make_ready
from viewer.importing import UnknownLocation, import_location, open_location
from viewer.login_links import login_link, owner
from viewer.management.command import OwnCommand
from viewer.models import Location

HOST = "127.0.0.1"
LONGEST_START_SECONDS = 60
LONGEST_STOP_SECONDS = 10
POLL_SECONDS = 0.05

Child = subprocess.Popen[bytes]


class Command(OwnCommand):
    help = "Serve the dashboard on this machine, run its jobs, and print a link that logs in, once."

    def runs_programs(self, options: Mapping[str, Any]) -> bool:
        return True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("location", nargs="?", help=_("A folder or database of checkpoints to open."))

    def handle(self, *args: Any, **options: Any) -> None:
        stopped = threading.Event()

        def stop(number: int, frame: FrameType | None) -> None:
            stopped.set()

        # Started by nohup, it outlives its terminal.
        hangs_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
        for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])):
            signal.signal(number, stop)
        refuse_taken_port()
        make_ready()
        identity.hand_on()
        location = opened(options["location"])
        children = start(location)
        try:
            wait_for_server(children, stopped)
            if not stopped.is_set():
                served = _("Serving on %(address)s until Ctrl-C. This link logs you in, once:")
                self.say([served % {"address": f"http://{HOST}:{settings.PORT}"}])
                self.say([login_link(owner(), location.get_absolute_url() if location else "/")])
            serve(children, stopped)
        finally:
            stop_all(children)


def refuse_taken_port() -> None:
    """Raises CommandError where something answers on the port already."""
    with socket.socket() as probe:
        # As the server will: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, settings.PORT))
        except OSError as error:
            message = _(
                "%(address)s is taken: is Forkline running already? "
                "Stop what runs there, or choose another port with PORT=…"
            )
            raise CommandError(message % {"address": f"{HOST}:{settings.PORT}"}) from error


def opened(path: str | None) -> Location | None:
    """The location that stands at the path, with what is new there. Raises CommandError."""
    if not path:
        return None
    try:
        location = open_location(path)
    except UnknownLocation as error:
        raise CommandError(f"{path}: {error}") from error
    import_location(location)
    return location


def start(location: Location | None) -> dict[str, Child]:
    """The server and the worker, in sessions of their own: Ctrl-C reaches them in order, from here."""
    environment = server_environment(location)
    commands = {
        _("web server"): [sys.executable, "-m", "checkpoint_site.server"],
        _("worker"): [sys.executable, "-m", "django", "worker"],
    }
    return {
        name: subprocess.Popen(command, cwd=settings.ROOT, env=environment, start_new_session=True)
        for name, command in commands.items()
    }


def server_environment(location: Location | None) -> Mapping[str, str]:
    """Ours, and the opened location's folder among those that the browser may open from."""
    roots = list(settings.CHECKPOINT_ROOTS)
    if location:
        roots.append(Path(location.path).parent)
    return {**os.environ, "CHECKPOINT_ROOTS": os.pathsep.join(str(root) for root in roots)}


def wait_for_server(children: Mapping[str, Child], stopped: threading.Event) -> None:
    """Until the port answers. Raises CommandError where it does not."""
    end = time.monotonic() + LONGEST_START_SECONDS
    while not stopped.wait(POLL_SECONDS):
        refuse_ended(children)
        with socket.socket() as probe:
            if probe.connect_ex((HOST, settings.PORT)) == 0:
                return
        if time.monotonic() > end:
            raise CommandError(_("The web server does not answer. What it printed above tells why."))


def serve(children: Mapping[str, Child], stopped: threading.Event) -> None:
    """Until it is stopped. Raises CommandError where one of them ends by itself."""
    while not stopped.wait(POLL_SECONDS):
        refuse_ended(children)


def refuse_ended(children: Mapping[str, Child]) -> None:
    for name, child in children.items():
        if child.poll() is not None:
            raise CommandError(
                _("The %(program)s has ended. What it printed above tells why.") % {"program": name}
            )


def stop_all(children: Mapping[str, Child]) -> None:
    """End the server and the worker. The children of jobs go on, and the next worker follows them."""
    for child in children.values():
        child.terminate()
    for child in children.values():
        try:
            child.wait(LONGEST_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
