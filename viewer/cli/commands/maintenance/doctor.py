"""``manage.py checkpoints doctor``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli import doctor_checks
from viewer.cli.output import Output
from viewer.data_folder import prepare_data_folder

HELP = gettext_lazy("Check the data folder, jobs and projects, and end jobs whose processes are gone.")
# It reports a database that cannot be used.
MAKES_READY = False
STATUS = {"ok": 0, "warning": 1, "error": 2}
SIGNS = {"ok": "✓", "warning": "!", "error": "✗"}


def add_arguments(parser: CommandParser) -> None:
    """Add no arguments."""


def handle(options: Mapping[str, Any]) -> Output:
    """The findings. The exit status is 0 without problems, 1 for warnings and 2 for errors."""
    found = [
        *doctor_checks.of_versions(),
        *doctor_checks.of_permissions(),
        *doctor_checks.of_space(),
        *doctor_checks.of_roots(),
        *doctor_checks.of_prices(),
    ]
    of_database = list(doctor_checks.of_database())
    found += of_database
    if all(one.state == "ok" for one in of_database):
        prepare_data_folder()
        found += [*doctor_checks.of_jobs(), *doctor_checks.of_projects(), *doctor_checks.of_hosts()]
    worst = max((one.state for one in found), key=lambda state: STATUS[state])
    endings = {
        "ok": _("No problems found."),
        "warning": _("There are warnings."),
        "error": _("There are errors."),
    }
    lines = [f"{SIGNS[one.state]} {one.check}: {one.text}" for one in found]
    findings = [{"check": one.check, "state": one.state, "text": one.text} for one in found]
    document = {"state": worst, "findings": findings}
    return Output(document, [*lines, endings[worst]], status=STATUS[worst])
