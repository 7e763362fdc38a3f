"""``forkline keys``: where the checkpoints of a location have keys, and which keys no run of it gets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.finding import imported_location
from viewer.cli.output import Output, Subcommand
from viewer.cli.parsing import TARGET
from viewer.host_requests import ListKeepableKeys, ask
from viewer.messages.translation import translate
from viewer.models import Location
from viewer.records.audit import Action, Audited, record
from viewer.records.bucket import BucketAway
from viewer.records.keys import KeyReport, key_document, keys_in
from viewer.validation import NAME


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
    return Output(document, _lines(report))


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


def _lines(report: KeyReport) -> Iterator[str]:
    for key in report.keys:
        seen = " to ".join(f"{at:%Y-%m-%d}" if at else "?" for at in (key.first_seen, key.last_seen))
        yield f"{seen}  {key.place}  ({key.checkpoints})  {key.last.checkpoint_id}"
    read = {"read": report.read, "total": report.total, "places": len(report.keys)}
    yield _("%(places)d places with a key in %(read)d of %(total)d checkpoints.") % read


KEYS = Subcommand(
    gettext_lazy(
        "List where the checkpoints of a location have keys, passwords and tokens, but not the values. Or "
        "choose which keys of its project no run gets."
    ),
    _add_keys_arguments,
    _handle_keys,
)
