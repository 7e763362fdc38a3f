"""``manage.py web``: the web server alone, such as on a machine without locations."""

import os
import sys
from argparse import ArgumentParser
from http.client import HTTPException
from ssl import SSLCertVerificationError
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import BaseHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.data_folder import prepare_data_folder
from viewer.management import ForklineCommand
from viewer.management.commands import up
from viewer.tls import InvalidCertificate, client_context

CHECK_SECONDS = 5


class Command(ForklineCommand):
    help = "Serve the dashboard on this machine, without a worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help=_("Ask the web server that runs on this machine whether it is healthy. Exit with 0 or 1."),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            refuse_unhealthy()
            self.say(["ok"])
            return
        up.refuse_unprotected_address()
        up.refuse_taken_port()
        prepare_data_folder()
        serving = _("Serving on %(address)s until Ctrl-C. login-link prints a link that logs in.")
        self.say([serving % {"address": up.shown_address()}])
        os.chdir(settings.ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "checkpoint_site.server"])  # noqa: S606


def refuse_unhealthy() -> None:
    """Raise CommandError unless the web server of this machine answers that it is healthy."""
    address = f"{up.served_address()}/healthz"
    host = urlsplit(settings.ALLOWED_ORIGINS[0]).netloc.removeprefix("*.")
    request = Request(address, headers={"Host": host})  # noqa: S310
    # Not by a proxy that the environment names.
    handlers: list[BaseHandler] = [ProxyHandler({})]
    try:
        if settings.TLS_CERTIFICATE:
            handlers.append(HTTPSHandler(context=client_context(settings.TLS_CERTIFICATE)))
        build_opener(*handlers).open(request, timeout=CHECK_SECONDS).close()
    except InvalidCertificate as error:
        raise CommandError(str(error)) from None
    except HTTPError as error:
        text = _("%(address)s answers %(status)d. The log of the web server says why.")
        raise CommandError(text % {"address": address, "status": error.code}) from error
    except (OSError, HTTPException) as error:
        if isinstance(getattr(error, "reason", None), SSLCertVerificationError):
            text = _("%(address)s has another certificate than TLS_CERTIFICATE, or one that has expired.")
            raise CommandError(text % {"address": address}) from error
        raise CommandError(_("%(address)s does not answer.") % {"address": address}) from error
