"""``manage.py checkpoints …``: what the browser shows and does, from the terminal."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.data_folder import make_ready
from viewer.terminal import SUBCOMMANDS
from viewer.terminal.answer import as_json, plain


class Command(BaseCommand):
    help = "List, show, fork and resume checkpoints, and answer what their runs ask."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        # The forkline command leaves the word out.
        parser.prog = parser.prog.replace("forkline checkpoints", "forkline")
        subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="|".join(SUBCOMMANDS))
        for name, subcommand in SUBCOMMANDS.items():
            subparser = subparsers.add_parser(
                name, help=str(subcommand.HELP), description=str(subcommand.HELP)
            )
            subparser.add_argument(
                "--json", action="store_true", help=_("Print one JSON document, nothing else.")
            )
            subcommand.add_arguments(subparser)

    def handle(self, *args: Any, **options: Any) -> None:
        make_ready()
        try:
            answer = SUBCOMMANDS[options["subcommand"]].answer(options)
        except CommandError as error:
            if options["json"]:
                self.stdout.write(as_json({"error": str(error)}))
            raise
        self.stdout.write(as_json(answer.document) if options["json"] else plain(answer.text))
        if answer.status:
            sys.exit(answer.status)
