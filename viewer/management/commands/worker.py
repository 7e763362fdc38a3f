"""``manage.py worker``: runs queued jobs, follows those whose worker has ended, and observes locations."""

import signal
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.cli.supervision import add_lifeline_argument, call_at_signal, hold
from viewer.data_folder import locks, prepare_data_folder
from viewer.host.jobs.following import stopping
from viewer.host.locations.completing import completing_imports
from viewer.host.locations.observing import observing_locations
from viewer.host.locations.search_index import indexing_in_background
from viewer.host.notifying import notifying
from viewer.host.worker import heartbeats, register, work
from viewer.management import ForklineCommand
from viewer.models import Host
from viewer.presentation.hosts import warnings_of
from viewer.records.audit import act_unattended
from viewer.validation import HOST_NAME, number_option, one_line

# Each job is a process of its own.
MAX_JOBS = 1_000


class Command(ForklineCommand):
    """One worker per data folder is enough; several are safe."""

    logs_jobs = True
    help = "Run queued jobs. Runs that are under way outlive it, and are followed on by the next."

    def runs_programs(self, options: Mapping[str, Any]) -> bool:
        return not options["check"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--jobs",
            type=number_option(1, MAX_JOBS),
            default=4,
            help=_("How many jobs to start at once (default: 4)."),
        )
        parser.add_argument(
            "--host",
            type=HOST_NAME,
            metavar="NAME",
            help=_("The name of this machine, if several machines share the database."),
        )
        parser.add_argument(
            "--pool",
            type=HOST_NAME,
            metavar="NAME",
            action="append",
            default=[],
            help=_("A pool of hosts that this machine joins. It can be repeated."),
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help=_("Check that this machine's worker runs and reaches its database. Exit with 0 or 1."),
        )
        add_lifeline_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            refuse_unhealthy()
            self.say(["ok"])
            return
        prepare_data_folder()
        act_unattended()
        hold(options["lifeline"])
        # Jobs under way continue, as each runner has its own session.
        call_at_signal((signal.SIGTERM, signal.SIGINT), stopping.set)
        host = register(options["host"], options["jobs"], options["pool"])
        self.warn_of(host)
        with (
            heartbeats(host, stopping.set),
            answering_others(host),
            observing_locations(),
            completing_imports(),
            indexing_in_background(),
            notifying(),
        ):
            work(jobs_at_once=options["jobs"])

    def warn_of(self, host: Host) -> None:
        """Report a clock or a version that differs from the others'."""
        for sentence in warnings_of(host):
            self.stderr.write(one_line(f"{host.name}: {sentence}"))


def refuse_unhealthy() -> None:
    """Raise CommandError or DatabaseError unless this machine's worker runs and its heartbeats arrive."""
    if not locks.worker_is_up():
        raise CommandError(_("No worker is running, so no job starts."))
    if not Host.objects.live().filter(pk__in=Host.objects.here().values("pk")).exists():
        raise CommandError(_("A worker is running, but the database has no recent heartbeat of it."))


def answering_others(host: Host) -> AbstractContextManager[None]:
    """Answer the requests of other machines within the block, if there may be any."""
    if not settings.IS_DATABASE_SHARED:
        return nullcontext()
    # Only PostgreSQL has this queue.
    from viewer.host.remote import answering

    return answering(host)
