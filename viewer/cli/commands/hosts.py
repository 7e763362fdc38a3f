"""``forkline hosts``: the machines, and which of them take jobs."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.finding import listed_location
from viewer.cli.output import LOCATION, Output, Subcommand
from viewer.formats import moment_text
from viewer.messages.translation import translate
from viewer.models import Host, Pool
from viewer.presentation.hosts import ShownHost, in_use_text, shown_hosts
from viewer.records.hosts import PoolRefused, change_pool, drain, remove_unused
from viewer.validation import NAME, one_line


def _add_hosts_arguments(parser: CommandParser) -> None:
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--drain",
        type=NAME,
        metavar="NAME",
        help=_("Have this host take no new jobs."),
    )
    change.add_argument("--resume", type=NAME, metavar="NAME", help=_("Have this host take jobs again."))
    change.add_argument(
        "--remove", type=NAME, metavar="NAME", help=_("Remove this host, which is away and has no locations.")
    )
    change.add_argument(
        "--pool",
        type=LOCATION,
        nargs=2,
        metavar=("POOL", "LOCATION"),
        help=_("Let the hosts of this pool run the jobs of a location, its project and its other locations."),
    )
    change.add_argument(
        "--no-pool",
        type=LOCATION,
        metavar="LOCATION",
        help=_("Let only its host run the jobs of this location."),
    )


def _handle_hosts(options: Mapping[str, Any]) -> Output:
    """All hosts, after the change. Raises CommandError for an unknown name, or for what cannot be changed."""
    if options["pool"] or options["no_pool"]:
        _change_pool(*(options["pool"] or ("", options["no_pool"])))
    if name := options["drain"] or options["resume"] or options["remove"]:
        host = Host.objects.filter(name=name).first()
        if host is None:
            raise CommandError(_("There is no host %s.") % name)
        if not options["remove"]:
            drain(host, is_drained=bool(options["drain"]))
        elif not remove_unused(host):
            raise CommandError(in_use_text(host))
    hosts = shown_hosts()
    return Output({"hosts": [_hosts_document(one) for one in hosts]}, _host_lines(hosts))


def _change_pool(name: str, text: str) -> None:
    location, pool = listed_location(text), Pool.objects.filter(name=name).first()
    if name and pool is None:
        raise CommandError(_("No host has joined the pool %s.") % one_line(name))
    try:
        change_pool(location, pool)
    except PoolRefused as refused:
        raise CommandError(translate(refused)) from None


def _hosts_document(shown: ShownHost) -> dict[str, Any]:
    host = shown.host
    return {
        "name": host.name,
        "address": host.address,
        "is_up": shown.is_up,
        "is_drained": host.is_drained,
        "seen_at": host.seen_at.isoformat() if host.seen_at else None,
        "clock_difference": host.clock_difference,
        "load": host.load,
        "slots": host.slots,
        "running": shown.running,
        "queued": shown.queued,
        "locations": shown.locations,
        "folders": host.folders,
        "forkline": host.version,
        "python": host.python_version,
        "engines": host.engines,
        "launchers": host.launchers,
        "pools": shown.pools,
        "warnings": shown.warnings,
    }


def _host_lines(hosts: list[ShownHost]) -> Iterator[str]:
    for shown in hosts:
        line = _("%(name)s  %(state)s  last heartbeat %(seen)s  %(running)d of %(slots)d running")
        values = {"name": shown.host.name, "state": shown.state, "running": shown.running}
        seen = moment_text(shown.host.seen_at, "full") if shown.host.seen_at else _("never")
        yield line % {**values, "seen": seen, "slots": shown.host.slots}
        if shown.pools:
            yield "  " + _("pool %(pool)s") % {"pool": ", ".join(shown.pools)}
        yield from (f"  {warning}" for warning in shown.warnings)


HOSTS = Subcommand(
    gettext_lazy("List the hosts, drain one before its maintenance, or have it take jobs again."),
    _add_hosts_arguments,
    _handle_hosts,
)
