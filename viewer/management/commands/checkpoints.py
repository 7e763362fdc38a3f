"""``manage.py checkpoints …``: the functions of the browser in the terminal."""

import gc
import sys
from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli import SUBCOMMANDS, LineParser, Output
from viewer.data_folder import prepare_data_folder
from viewer.data_folder.locks import worker_is_up
from viewer.management import ForklineCommand
from viewer.models import Job

# New objects after which the garbage collector of a command looks for unused ones.
MIN_GARBAGE = 100_000


class Command(ForklineCommand):
    help = "List, show, fork and resume checkpoints, and answer what their runs ask."

    # The subcommand that the command line names, if it is the first argument.
    named: str | None = None
    # What follows it in the command line; None if the command is called from a program.
    arguments: Sequence[str] | None = None

    def run_from_argv(self, argv: list[str]) -> None:
        named = argv[2] if len(argv) > 2 else ""
        self.named, self.arguments = named if named in SUBCOMMANDS else None, argv[3:]
        # Traversing thousands of rows again and again, which are no garbage, takes a fifth of the time.
        gc.set_threshold(MIN_GARBAGE, 50, 100)
        super().run_from_argv(argv)

    def runs_programs(self, options: Mapping[str, Any]) -> bool:
        return bool(options.get("wait")) and not self.is_for_server

    @property
    def is_for_server(self) -> bool:
        """Whether the command line is sent to a server elsewhere."""
        return self.arguments is not None and bool(settings.FORKLINE_SERVER)

    def add_arguments(self, parser: CommandParser) -> None:
        # The forkline command omits this word.
        parser.prog = parser.prog.replace("forkline checkpoints", "forkline")
        subparsers = parser.add_subparsers(
            dest="subcommand", required=True, metavar="COMMAND", parser_class=LineParser
        )
        for name in SUBCOMMANDS:
            if self.named not in (None, name):
                # Importing the modules of the others takes as long as most commands.
                subparsers.add_parser(name)
                continue
            subcommand = SUBCOMMANDS[name]
            text = str(subcommand.help)
            subparser = subparsers.add_parser(name, help=text, description=text)
            subparser.add_argument(
                "--json", action="store_true", help=_("Print one JSON document, nothing else.")
            )
            # Django's own options precede the subcommand. This one is typed when a command has failed.
            subparser.add_argument(
                "--traceback", action="store_true", default=SUPPRESS, help=_("Show where an error arose.")
            )
            subcommand.add_arguments(subparser)

    def handle(self, *args: Any, **options: Any) -> None:
        output = self.output(options)
        if options["json"]:
            self.say_json(output.document)
        elif output.file:
            self.say_file(output.file)
        else:
            self.say(output.lines)
        if output.status:
            sys.exit(output.status)

    def output(self, options: Mapping[str, Any]) -> Output:
        """The output of the subcommand, on this machine, or on a server if the command line names one."""
        name = options["subcommand"]
        if self.is_for_server:
            from viewer.cli.remote import run_there

            if not self.named:
                raise CommandError(_("With --server, name the command before its options."))
            return run_there(settings.FORKLINE_SERVER, name, self.arguments or (), options)
        subcommand = SUBCOMMANDS[name]
        if subcommand.makes_ready:
            prepare_data_folder()
            end_orphaned_jobs()
        return subcommand.handle(options)


def end_orphaned_jobs() -> None:
    """End the jobs whose follower was killed, unless a worker is up: it follows them on."""
    if Job.objects.under_way().exists() and not worker_is_up():
        # Most commands find no such job, and start sooner without this module.
        from viewer.host.jobs.following import finish_orphans

        finish_orphans()
