"""``manage.py login_link [NAME [--may run]]``: a link that logs in once."""

from argparse import ArgumentParser
from typing import Any, get_args

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.data_folder import prepare_data_folder
from viewer.management import ForklineCommand
from viewer.records.accounts import login_link, owner, password_link, teammate
from viewer.records.permissions import May
from viewer.validation import NAME


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

        parser.add_argument(
            "--new-password",
            action="store_true",
            help=_("Print a link with which this user sets a new password instead."),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["may"] and not options["name"]:
            raise CommandError(
                _("--may needs a user name: login_link NAME --may run. Your own account may do everything.")
            )
        if options["new_password"] and (options["may"] or not options["name"]):
            raise CommandError(_("Name who has forgotten a password: login_link NAME --new-password"))
        prepare_data_folder()
        try:
            self.say([self._link(options)])
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error

    def _link(self, options: dict[str, Any]) -> str:
        """Return the link. Raises ValidationError."""
        if options["new_password"]:
            return password_link(options["name"])
        return login_link(teammate(options["name"], options["may"]) if options["name"] else owner())
