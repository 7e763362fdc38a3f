"""``manage.py web``: the web server alone, such as on a machine without locations."""

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from viewer.data_folder import prepare_data_folder
from viewer.management.command import ForklineCommand
from viewer.management.commands.up import HOST, refuse_taken_port


class Command(ForklineCommand):
    help = "Serve the dashboard on this machine, without a worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """It has only settings."""

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_taken_port()
        prepare_data_folder()
        serving = _("Serving on %(address)s until Ctrl-C. login-link prints a link that logs in.")
        self.say([serving % {"address": f"http://{HOST}:{settings.PORT}"}])
        os.chdir(settings.ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "checkpoint_site.server"])  # noqa: S606
