"""``manage.py checkpoints prune``."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.edits import LOCATION
from viewer.cli.finding import imported_location
from viewer.cli.output import Output
from viewer.formats import count_text
from viewer.host_requests import (
    MAX_PRUNE_LATEST,
    ListPrunable,
    Prune,
    Pruned,
    PruneList,
    PruneRefused,
    PruneRules,
    ask,
)
from viewer.messages.translation import translate
from viewer.models import Location
from viewer.presentation.deletions import deleted_texts
from viewer.validation import MAX_DAYS, NAME, number_option

HELP = gettext_lazy(
    "Delete checkpoints at their source by age, number or branch. Without --confirm, only list them."
)


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location", type=LOCATION, metavar="LOCATION", help=_("A folder or an SQLite file of checkpoints.")
    )
    parser.add_argument(
        "--days",
        type=number_option(0, MAX_DAYS),
        metavar="N",
        help=_("Only those that are at least N days old."),
    )
    parser.add_argument(
        "--latest",
        type=number_option(1, MAX_PRUNE_LATEST),
        metavar="N",
        help=_("Keep the newest N of each branch."),
    )
    parser.add_argument("--branch", type=NAME, help=_("Only those of this branch."))
    parser.add_argument(
        "--delete-copies",
        action="store_true",
        help=_("Delete the stored copies too, also those of matching checkpoints that were pruned before."),
    )
    parser.add_argument("--dry-run", action="store_true", help=_("Only list, even with --confirm."))
    parser.add_argument(
        "--confirm",
        type=NAME,
        metavar="DIGEST",
        help=_("Delete the list with this digest, which was printed with it. Another list is refused."),
    )


def handle(options: Mapping[str, Any]) -> Output:
    """List what would be deleted, or delete the confirmed list. Raises CommandError."""
    rules = PruneRules(options["days"], options["latest"], options["branch"] or "", options["delete_copies"])
    if rules.is_empty:
        raise CommandError(_("Choose an age, a number or a branch."))
    location = imported_location(options["location"])
    try:
        if options["confirm"] and not options["dry_run"]:
            return _deleted(location, ask(Prune(location.pk, rules, options["confirm"])))
        return _listed(location, ask(ListPrunable(location.pk, rules)))
    except PruneRefused as error:
        raise CommandError(translate(error)) from None


def _listed(location: Location, plan: PruneList) -> Output:
    document = {
        "location": location.path,
        "digest": plan.digest,
        "checkpoints": plan.rows,
        "bytes": plan.size,
        "delete_copies": plan.deletes_copies,
        "copies_of_pruned": plan.pruned,
        "protected": plan.protected,
    }
    return Output(document, list(_lines(plan)))


def _lines(plan: PruneList) -> Iterator[str]:
    yield from plan.rows
    for key in plan.pruned:
        yield _("%(key)s (no longer at its source; its stored copy)") % {"key": key}
    count = len(plan.rows)
    text = ngettext(
        "%(count)s checkpoint would be deleted.", "%(count)s checkpoints would be deleted.", count
    )
    yield text % {"count": count_text(count)}
    if plan.deletes_copies:
        copies = ngettext(
            "%(count)s stored copy would be deleted.",
            "%(count)s stored copies would be deleted.",
            plan.listed,
        )
        yield copies % {"count": count_text(plan.listed)}
    for reason, number in plan.protected.items():
        yield _("protected: %(count)s (%(reason)s)") % {
            "count": count_text(number),
            "reason": reason.replace("_", " "),
        }
    if plan.listed:
        yield _("To delete exactly these, repeat the command with --confirm %s") % plan.digest


def _deleted(location: Location, done: Pruned) -> Output:
    kept = {one.key: translate(one.reason) for one in done.kept}
    lines = deleted_texts(location, done)
    not_deleted = _("Not deleted: %(key)s. %(reason)s")
    lines += [not_deleted % {"key": key, "reason": why} for key, why in kept.items()]
    document = {
        "location": location.path,
        "deleted": len(done.deleted),
        "copies_deleted": done.copies,
        "kept": kept,
    }
    return Output(document, lines, status=int(bool(kept)))
