"""``manage.py checkpoints …``: what the browser shows and does, from the terminal."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.translation import gettext as _

from viewer.data_folder import make_ready
from viewer.terminal import SUBCOMMANDS


class Command(BaseCommand):
    help = "List, show, fork and resume checkpoints, and answer what their runs ask."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
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
        answer = SUBCOMMANDS[options["subcommand"]].answer(options)
        text = json.dumps(answer.document, ensure_ascii=False) if options["json"] else answer.text
        self.stdout.write(text)
        if answer.status:
            sys.exit(answer.status)
