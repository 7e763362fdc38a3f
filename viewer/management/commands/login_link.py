"""``manage.py login_link [NAME [--may run]]``: a link that logs in once."""

from argparse import ArgumentParser
from typing import Any, get_args

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.access.login_links import login_link, owner, teammate
from viewer.access.permissions import May
from viewer.data_folder import make_ready
from viewer.management.command import OwnCommand


class Command(OwnCommand):
    help = "Print a link that logs in, once. It holds for a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help=_("The user, created if new; you if omitted."))
        parser.add_argument(
            "--may",
            choices=get_args(May),
            help=_(
                "What they may do from now on: look, or run as well, which is to start, cancel and answer"
                " runs, and to change locations, projects and limits. Somebody new may look."
            ),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["may"] and not options["name"]:
            raise CommandError(_("Say whose right it is: login_link NAME --may run. You may do everything."))
        make_ready()
        try:
            user = teammate(options["name"], options["may"]) if options["name"] else owner()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.say([login_link(user)])
