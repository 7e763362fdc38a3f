"""``manage.py up``: the web server and a worker on this machine, and a link that logs in."""

import os
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.cli import LOCATION, supervision
from viewer.cli.supervision import GaveUp, Program, SignalPipe, end_with_parent, holder_of, is_taken
from viewer.data_folder import permissions, prepare_data_folder
from viewer.management import ForklineCommand
from viewer.models import Location
from viewer.records.accounts import login_link, owner
from viewer.stores import shown_path
from viewer.tls import InvalidCertificate, server_context
from viewer.validation import number_option, one_line

LONGEST_START_SECONDS = 60
POLL_SECONDS = 0.05


class Command(ForklineCommand):
    help = "Serve the dashboard on this machine, run its jobs, and print a link that logs in, once."

    def runs_programs(self, options: Mapping[str, Any]) -> bool:
        return True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "location",
            type=LOCATION,
            nargs="?",
            help=_("A folder or database of checkpoints to open, or postgresql:NAME."),
        )
        parser.add_argument(
            "--parent",
            type=number_option(1, 2**22),
            metavar="PID",
            help=_("End when the parent process with this id ends."),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        end_with_parent(options["parent"])
        refuse_unprotected_address()
        refuse_taken_port()
        prepare_data_folder()
        permissions.hand_on()
        location = opened(options["location"])
        # Under nohup it continues after its terminal was closed.
        hangs_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
        stopping = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])]
        signals = SignalPipe([*stopping, signal.SIGCHLD])
        # The programs end when it is closed, however this process ends.
        lifeline, held = os.pipe()
        served = programs_for(location)
        try:
            if wait_for_server(served, signals, lifeline, self.report):
                serving = _("Serving on %(address)s until Ctrl-C. This link logs you in, once:")
                self.say([serving % {"address": shown_address()}])
                self.say([login_link(owner(), location.get_absolute_url() if location else "/")])
                supervision.supervise(served, signals, lifeline, self.report)
        except GaveUp as error:
            raise CommandError(str(error)) from None
        finally:
            supervision.stop_all(served, signals)
            os.close(held)

    def report(self, text: str) -> None:
        """Report why a program ended, with its last output."""
        self.stderr.write("\n".join(map(one_line, text.splitlines())))


def served_address() -> str:
    """Return the address of the web server on this machine."""
    # 0.0.0.0 is every address of this machine, not one that a browser can open.
    address = "127.0.0.1" if settings.LISTEN_ADDRESS == "0.0.0.0" else settings.LISTEN_ADDRESS  # noqa: S104
    return f"{'https' if settings.TLS_CERTIFICATE else 'http'}://{address}:{settings.PORT}"


def shown_address() -> str:
    """Return the address to open: with an own certificate, one that it is for."""
    return str(settings.ALLOWED_ORIGINS[0]) if settings.TLS_CERTIFICATE else served_address()


def refuse_unprotected_address() -> None:
    """Raise CommandError if other machines could read passwords, or if the certificate cannot be served."""
    address = settings.LISTEN_ADDRESS
    if settings.TLS_CERTIFICATE and settings.TLS_KEY:
        try:
            server_context(settings.TLS_CERTIFICATE, settings.TLS_KEY, settings.ALLOWED_HOSTS)
        except InvalidCertificate as error:
            raise CommandError(str(error)) from None
    if address.startswith("127."):
        return
    if not settings.IS_BEHIND_TLS:
        text = _(
            "Other machines can reach %(address)s, but without TLS anybody on the way reads passwords. Give"
            " Forkline a certificate: TLS_CERTIFICATE=/path/to/chain.pem TLS_KEY=/path/to/key.pem"
            " ALLOWED_HOSTS=forkline.example.org forkline up. Or put a proxy with TLS in front, and name its"
            " address: ALLOWED_HOSTS=forkline.example.org ALLOWED_ORIGINS=https://forkline.example.org"
            " forkline up"
        )
        raise CommandError(text % {"address": address})


def refuse_taken_port() -> None:
    """Raise CommandError if something answers on the port already."""
    if not is_taken(settings.LISTEN_ADDRESS, settings.PORT):
        return
    values = {"address": f"{settings.LISTEN_ADDRESS}:{settings.PORT}", "process": holder_of(settings.PORT)}
    message = _(
        "%(address)s is in use. Is Forkline running already? Stop the other program, or choose"
        " another port with PORT=…"
    )
    if values["process"]:
        message = _(
            "%(address)s is in use by %(process)s. Stop that process, or choose another port with PORT=…"
        )
    raise CommandError(message % values)


def opened(path: str | None) -> Location | None:
    """The location at the path, after an import of what it shows first. Raises CommandError."""
    if not path:
        return None
    # Importing this takes a fifth of the time that a start without a location takes.
    from viewer.host_requests import ImportLocation, OpenLocation, UnknownLocation, ask

    try:
        location = Location.objects.get(pk=ask(OpenLocation(path, anywhere=True)))
    except UnknownLocation as error:
        raise CommandError(f"{shown_path(path)}: {error}") from error
    ask(ImportLocation(location.pk, newest_first=True))
    return location


def programs_for(location: Location | None) -> list[Program]:
    """The web server and the worker."""
    environment = server_environment(location)
    commands = {
        _("web server"): [sys.executable, "-m", "checkpoint_site.server"],
        _("worker"): [sys.executable, "-m", "django", "worker"],
    }
    return [Program(name, command, settings.ROOT, environment) for name, command in commands.items()]


def server_environment(location: Location | None) -> Mapping[str, str]:
    """The environment of the programs, with the location's folder among the allowed folders."""
    roots = list(settings.CHECKPOINT_ROOTS)
    if location and location.is_local:
        roots.append(Path(location.path).parent)
    return {**os.environ, "CHECKPOINT_ROOTS": os.pathsep.join(str(root) for root in roots)}


def wait_for_server(
    served: list[Program], signals: SignalPipe, lifeline: int, report: supervision.Say
) -> bool:
    """Start the programs, and wait until the port answers. False if a signal came first.

    Raises CommandError where one ends before that.
    """
    for program in served:
        supervision.begin(program, lifeline)
    end = time.monotonic() + LONGEST_START_SECONDS
    while supervision.wait(served, signals, POLL_SECONDS):
        for program in served:
            if program.process and program.process.poll() is not None:
                report(supervision.exit_report(program))
                raise CommandError(_("The %(program)s did not start.") % {"program": program.name})
        with socket.socket() as probe:
            if probe.connect_ex((settings.LISTEN_ADDRESS, settings.PORT)) == 0:
                return True
        if time.monotonic() > end:
            raise CommandError(_("The web server does not answer. Its output above says why."))
    return False
