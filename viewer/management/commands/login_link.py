"""``manage.py login_link [NAME]``: one more link that logs in, once."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from viewer.data_folder import make_ready
from viewer.login_links import login_link, owner, teammate


class Command(BaseCommand):
    help = "Print a link that logs in, once. It holds for a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name", nargs="?", help=_("Whom it logs in, entered where that is somebody new. Without: you.")
        )

    def handle(self, *args: Any, **options: Any) -> None:
        make_ready()
        try:
            user = teammate(options["name"]) if options["name"] else owner()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.stdout.write(login_link(user))
