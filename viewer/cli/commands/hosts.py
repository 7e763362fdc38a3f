"""``forkline hosts``, ``isolation`` and ``keys``: where jobs run, and what a project's runs may use there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import LOCATION, TARGET, Output, Subcommand
from viewer.cli.finding import imported_location, listed_location
from viewer.formats import moment_text
from viewer.host_requests import HostRefusal, ListKeepableKeys, ask
from viewer.messages.translation import translate
from viewer.models import Host, Location, Pool
from viewer.presentation.hosts import (
    ShownHost,
    in_use_text,
    isolation_lines,
    open_folders,
    shown_hosts,
    unavailable_lines,
)
from viewer.records.audit import Action, Audited, record
from viewer.records.bodies import KeyReport, key_document, keys_in
from viewer.records.bucket import BucketAway
from viewer.records.hosts import PoolRefused, change_pool, drain, remove_unused
from viewer.records.isolation import (
    LAUNCHERS,
    LIMITS,
    NETWORKS,
    Isolation,
    IsolationRefused,
    allowed_hosts,
    change_isolation,
    checked,
    isolation_of,
    missing,
    without_noted,
)
from viewer.validation import NAME, number_option, one_line


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
    project = listed_location(options["location"]).project
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


def _add_keys_arguments(parser: CommandParser) -> None:
    parser.add_argument("location", type=TARGET, metavar="LOCATION", help=_("A location."))
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--keep",
        action="append",
        type=NAME,
        metavar="VARIABLE",
        help=_(
            "Instead, let this key of the project's environment file stay with Forkline. Can be repeated."
        ),
    )
    chosen.add_argument(
        "--keep-none",
        action="store_true",
        help=_("Instead, give the project's runs all of their keys again."),
    )


def _handle_keys(options: Mapping[str, Any]) -> Output:
    """The places of keys in the checkpoints, the one that was seen last first. Raises CommandError."""
    location = imported_location(options["location"])
    if options["keep"] or options["keep_none"]:
        return _kept(location, options["keep"] or [])
    try:
        report = keys_in(location)
    except BucketAway as away:
        raise CommandError(translate(away)) from None
    document = {
        "location": location.path,
        "read": report.read,
        "checkpoints": report.total,
        "is_cut_off": report.is_cut_off,
        "keys": list(map(key_document, report.keys)),
    }
    return Output(document, _key_lines(report))


def _kept(location: Location, names: Sequence[str]) -> Output:
    """Add to the keys that no run gets; without names, give runs all keys again.

    Raises CommandError for a name without a key and an address.
    """
    project = location.project
    if project is None:
        message = _("Configure the project of %(location)s on its page first.")
        raise CommandError(message % {"location": location.path})
    found = {key.variable: key.address for key in ask(ListKeepableKeys(project.pk))}
    if unknown := [name for name in names if name not in found]:
        message = _("%(name)s is no key with a known address. The environment file has: %(names)s")
        raise CommandError(message % {"name": unknown[0], "names": ", ".join(found) or "-"})
    # Those that stay already stay: a key that is not named was not released.
    kept = {**project.kept_keys, **{name: found[name] for name in names}} if names else {}
    kept = dict(sorted(kept.items()))
    with transaction.atomic():
        project.change_kept_keys(kept)
        record(Action.CHANGED, Audited.PROJECT, project.pk, "keys: " + ", ".join(kept))
    lines = [
        _("%(name)s stays with Forkline, for %(address)s only.") % {"name": one, "address": kept[one]}
        for one in kept
    ]
    document = {"location": location.path, "kept_keys": kept}
    return Output(document, lines or [_("Runs get all keys of the environment file.")])


def _key_lines(report: KeyReport) -> Iterator[str]:
    for key in report.keys:
        seen = " to ".join(f"{at:%Y-%m-%d}" if at else "?" for at in (key.first_seen, key.last_seen))
        yield f"{seen}  {key.place}  ({key.checkpoints})  {key.last.checkpoint_id}"
    places = len(report.keys)
    yield ngettext("%(places)d place with a key.", "%(places)d places with a key.", places) % {
        "places": places
    }
    yield _("Checkpoints read: %(read)d of %(total)d") % {"read": report.read, "total": report.total}


KEYS = Subcommand(
    gettext_lazy(
        "List where the checkpoints of a location have keys, passwords and tokens, but not the values. Or "
        "choose which keys of its project no run gets."
    ),
    _add_keys_arguments,
    _handle_keys,
)
