"""``forkline audit``: who did and opened what."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli import Output, Subcommand
from viewer.models import AuditEntry
from viewer.records.audit import Action, Audited, document_of, entries_of, line_of, record
from viewer.validation import MAX_DAYS, NAME, number_option


def _add_audit_arguments(parser: CommandParser) -> None:
    parser.add_argument("--who", type=NAME, metavar="NAME", help=_("Only what this user or account did."))
    parser.add_argument("--action", choices=AuditEntry.Action.values, help=_("Only this action."))
    parser.add_argument("--kind", choices=AuditEntry.Kind.values, help=_("Only this kind of object."))
    parser.add_argument("--object", type=NAME, metavar="ID", help=_("Only the object with this ID."))
    parser.add_argument(
        "--days", type=number_option(1, MAX_DAYS), metavar="N", help=_("Only the last N days.")
    )
    parser.add_argument("--jsonl", action="store_true", help=_("Print each entry as one line of JSON."))


def _handle_audit(options: Mapping[str, Any]) -> Output:
    """The entries that match, the oldest first."""
    record(Action.EXPORTED, Audited.AUDIT)
    since = timezone.now() - timedelta(days=options["days"]) if options["days"] else None
    actor, action, kind, key = (options[name] or "" for name in ("who", "action", "kind", "object"))
    entries = entries_of(actor, action, kind, key, since).reverse()
    documents = (document_of(entry) for entry in _read(entries))
    if not options["jsonl"] and not entries.exists():
        return Output({"entries": []}, [_("No entry matches.")])
    shown = line_of if options["jsonl"] else _line
    return Output({"entries": documents}, (shown(entry) for entry in _read(entries)))


def _read(entries: QuerySet[AuditEntry]) -> Iterator[AuditEntry]:
    yield from entries.iterator(chunk_size=1000)


def _line(entry: AuditEntry) -> str:
    """An entry for a person: when, who, from where, what, and with what result."""
    result = "" if entry.result == AuditEntry.Result.DONE else entry.get_result_display()
    who = f"{entry.get_actor_kind_display()} {entry.actor}".strip()
    if entry.token:
        who += f" ({_('API token %(key)s') % {'key': entry.token}})"
    parts = [entry.at.isoformat(timespec="seconds"), who, entry.address, entry.get_action_display()]
    parts += [f"{entry.get_kind_display()} {entry.key}".strip(), entry.detail, result]
    return "  ".join(filter(None, parts))


AUDIT = Subcommand(
    gettext_lazy("List who did and opened what, when and from where, if the setting AUDIT is on."),
    _add_audit_arguments,
    _handle_audit,
)
