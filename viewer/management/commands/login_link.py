"""``manage.py login_link [NAME [--may run]]``: a link that logs in once."""

from argparse import ArgumentParser
from typing import Any, get_args

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.data_folder import prepare_data_folder
from viewer.management.command import ForklineCommand
from viewer.records.permissions import May
from viewer.validation import NAME
from viewer.web.login_links import login_link, owner, teammate


class Command(ForklineCommand):
    help = "Print a link that logs in, once. It is valid for a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=NAME, nargs="?", help=_("The user, created if new; you if omitted."))
        parser.add_argument(
            "--may",
            choices=get_args(May),
            type=NAME,
            help=_(
                "What the user may do: view; or run, which also allows starting, cancelling and answering"
                " runs, and changing locations, projects and limits. A new user may view."
            ),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["may"] and not options["name"]:
            raise CommandError(
                _("--may needs a user name: login_link NAME --may run. Your own account may do everything.")
            )
        prepare_data_folder()
        try:
            user = teammate(options["name"], options["may"]) if options["name"] else owner()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.say([login_link(user)])
