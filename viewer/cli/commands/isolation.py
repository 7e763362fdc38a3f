"""``forkline isolation``: how the runs of a location's project are isolated."""

from collections.abc import Mapping
from typing import Any

import msgspec
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.commands.roles import role_location
from viewer.cli.output import Output, Subcommand
from viewer.cli.parsing import LOCATION
from viewer.host_requests import HostRefusal
from viewer.launching.isolation import change_isolation
from viewer.messages.translation import translate
from viewer.presentation.isolation import isolation_lines, open_folders, unavailable_lines
from viewer.records.isolation import (
    LAUNCHERS,
    LIMITS,
    NETWORKS,
    Isolation,
    IsolationRefused,
    allowed_hosts,
    checked,
    isolation_of,
    missing,
    without_noted,
)
from viewer.validation import NAME, number_option


def _add_isolation_arguments(parser: CommandParser) -> None:
    parser.add_argument("location", type=LOCATION, help=_("A location of the project."))
    parser.add_argument("--launcher", type=NAME, choices=LAUNCHERS, help=_("What starts its runs."))
    parser.add_argument(
        "--network",
        type=NAME,
        choices=NETWORKS,
        help=_("What its runs reach: everything, allowed hosts only, or nothing. Needs a sandbox."),
    )
    parser.add_argument(
        "--allow",
        type=NAME,
        action="append",
        metavar="HOST[:PORT]",
        help=_("A host that its runs may reach, with its port unless that is 443. Can be repeated."),
    )
    limits = {
        "memory_mb": _("The memory of all processes of a run together; 0 is no limit."),
        "cpu_seconds": _("The processor time of all processes of a run together; 0 is no limit."),
        "processes": _("The processes and threads of a run; 0 is no limit."),
        "open_files": _("The open files of each process of a run; 0 is no limit."),
        "wall_seconds": _("How long a run may take; 0 is no limit."),
    }
    for name, text in limits.items():
        kind = number_option(0, LIMITS[name])
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="NUMBER", help=text)
    for name, text in (
        ("read", _("A further folder that runs in a sandbox may read. Can be repeated.")),
        ("write", _("A further folder that runs in a sandbox may write. Can be repeated.")),
    ):
        parser.add_argument(f"--{name}", type=LOCATION, action="append", metavar="DIR", help=text)
    parser.add_argument("--off", action="store_true", help=_("Start plain processes without limits again."))


def _handle_isolation(options: Mapping[str, Any]) -> Output:
    """The isolation after the change, and what works on the host. Raises CommandError."""
    project = role_location(options["location"]).project
    if project is None:
        raise CommandError(_("Configure the project of %(location)s on its page first.") % options)
    try:
        isolation = Isolation() if options["off"] else isolation_of(without_noted(project.isolation))
        names = ("launcher", "network", "allow", *LIMITS, "read", "write")
        given = {name: options[name] for name in names if options[name] is not None}
        if "allow" in given:
            given["allow"] = allowed_hosts(given["allow"])
        elif given.get("network", "hosts") != "hosts":
            given["allow"] = ()
        changed = checked(msgspec.convert({**msgspec.structs.asdict(isolation), **given}, Isolation))
    except IsolationRefused as refused:
        raise CommandError(translate(refused)) from None
    if given or options["off"]:
        try:
            change_isolation(project, changed)
        except HostRefusal as refused:
            raise CommandError(translate(refused)) from None
    refusal = missing(changed, project.host.launchers)
    warnings = [translate(refusal)] if refusal else []
    opened = open_folders(project)
    document = {
        "project": project.folder,
        "isolation": changed.as_data(),
        "open": {"read": opened.read, "write": opened.write},
        "launchers": project.host.launchers,
        "warnings": warnings,
    }
    lines = [*isolation_lines(changed), *opened.lines(), *unavailable_lines(project.host), *warnings]
    return Output(document, lines)


ISOLATION = Subcommand(
    gettext_lazy("Show or change how the runs of a location's project are isolated."),
    _add_isolation_arguments,
    _handle_isolation,
)
