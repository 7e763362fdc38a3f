"""``forkline keys``: where the checkpoints of a location have keys, for their owner to replace."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import TARGET
from viewer.cli.finding import imported_location
from viewer.cli.output import Output, Subcommand
from viewer.messages.translation import translate
from viewer.records.bucket import BucketAway
from viewer.records.keys import KeyReport, key_document, keys_in


def _add_keys_arguments(parser: CommandParser) -> None:
    parser.add_argument("location", type=TARGET, metavar="LOCATION", help=_("A location."))


def _handle_keys(options: Mapping[str, Any]) -> Output:
    """The places of keys in the checkpoints, the one that was seen last first. Raises CommandError."""
    location = imported_location(options["location"])
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


def _lines(report: KeyReport) -> Iterator[str]:
    for key in report.keys:
        seen = " to ".join(f"{at:%Y-%m-%d}" if at else "?" for at in (key.first_seen, key.last_seen))
        yield f"{seen}  {key.place}  ({key.checkpoints})  {key.last.checkpoint_id}"
    read = {"read": report.read, "total": report.total, "places": len(report.keys)}
    yield _("%(places)d places with a key in %(read)d of %(total)d checkpoints.") % read


KEYS = Subcommand(
    gettext_lazy(
        "List where the checkpoints of a location have keys, passwords and tokens, but not the values."
    ),
    _add_keys_arguments,
    _handle_keys,
)
