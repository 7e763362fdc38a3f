"""``manage.py checkpoints clean``."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.output import Output
from viewer.formats import count_text, short_size
from viewer.host.jobs.retention import MIN_DAYS, compact, old_data, remove, sizes
from viewer.validation import MAX_DAYS, number_option

HELP = gettext_lazy("Show what Forkline stores, and remove its own old data. Locations are never touched.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--events",
        type=number_option(MIN_DAYS, MAX_DAYS),
        metavar="DAYS",
        help=_("Remove the events of jobs that ended at least this many days ago; at least 2."),
    )
    parser.add_argument(
        "--jobs",
        type=number_option(MIN_DAYS, MAX_DAYS),
        metavar="DAYS",
        help=_(
            "Remove jobs that ended at least this many days ago without a checkpoint and did not succeed;"
            " at least 2."
        ),
    )
    parser.add_argument("--compact", action="store_true", help=_("Return unused space to the disk."))
    parser.add_argument("--dry-run", action="store_true", help=_("Only count what would be removed."))


def handle(options: Mapping[str, Any]) -> Output:
    """Remove what is old, and show the sizes of what is stored then. Raises CommandError."""
    old = old_data(options["events"], options["jobs"])
    if options["dry_run"]:
        events, jobs = old.events.count(), old.jobs.count()
    else:
        events, jobs = remove(old)
        if options["compact"] and not compact():
            raise CommandError(_("The database is in use or the disk is full. Nothing was compacted."))
    stored = list(sizes())
    document = {
        "dry_run": options["dry_run"],
        "events": events,
        "jobs": jobs,
        "stored": [{"label": one.label, "count": one.count, "bytes": one.size} for one in stored],
    }
    return Output(document, list(_lines(document)))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    events, jobs = document["events"], document["jobs"]
    removed = {
        "events": ngettext("%(count)s event", "%(count)s events", events) % {"count": count_text(events)},
        "jobs": ngettext("%(count)s job", "%(count)s jobs", jobs) % {"count": count_text(jobs)},
    }
    if document["dry_run"]:
        yield _("Would remove %(events)s and %(jobs)s.") % removed
    else:
        yield _("Removed %(events)s and %(jobs)s.") % removed
    for one in document["stored"]:
        count = "" if one["count"] is None else f"{count_text(one['count'])}, "
        yield f"{one['label']}: {count}{short_size(one['bytes'])}"
