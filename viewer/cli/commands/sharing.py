"""``forkline shares`` and ``export``: runs for people without a login."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import CHECKPOINT, NEW_FILE, NUMBER_FROM_ONE, Output, Subcommand, minute_of, written
from viewer.cli.finding import add_checkpoint_argument, checkpoint_at
from viewer.engines.recorded_calls import NotReproducible
from viewer.messages.translation import translate
from viewer.models import Run, ShareLink
from viewer.presentation import share_links
from viewer.presentation.comparison_sides import reference_to
from viewer.presentation.export import ALL_FORMATS, OTLP, file_name
from viewer.records.accounts import owner
from viewer.records.audit import Action, Audited, is_at_terminal, record
from viewer.records.permissions import can_share
from viewer.validation import COLLECTOR, one_line, shortened

# ``manage.py checkpoints shares``: lists, makes and revokes share links.


def _add_shares_arguments(parser: CommandParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--make",
        type=CHECKPOINT,
        metavar="OBJECT",
        help=_(
            "Make a link to a checkpoint, named as LOCATION#ID, or to the run, checkpoint, comparison, search"
            " or job whose page has this address."
        ),
    )
    what.add_argument(
        "--revoke", type=NUMBER_FROM_ONE, metavar="ID", help=_("Revoke the link with this ID of the list.")
    )
    parser.add_argument("--run", action="store_true", help=_("Share the whole run of the checkpoint."))
    parser.add_argument(
        "--days",
        type=int,
        choices=sorted(share_links.EXPIRY_DAYS),
        default=share_links.EXPIRY_DAYS[0],
        help=_("Days after which the link expires (default: %(days)d).")
        % {"days": share_links.EXPIRY_DAYS[0]},
    )
    parser.add_argument(
        "--unfurl", action="store_true", help=_("Let a chat show a preview where the link is pasted.")
    )
    parser.add_argument(
        "--dry-run", action="store_true", help=_("With --make: only print what the link would show.")
    )


def _handle_shares(options: Mapping[str, Any]) -> Output:
    """The links, the new one, or the revoked one. Raises CommandError."""
    if options["make"] is not None:
        return _shares_made(options)
    if options["revoke"] is not None:
        return _shares_revoked(options["revoke"])
    links = [_shares_document(link) for link in ShareLink.objects.select_related("made_by")]
    return Output({"links": links}, list(_shares_lines(links)))


def _shares_made(options: Mapping[str, Any]) -> Output:
    if not settings.SHARING:
        raise CommandError(_("Sharing is turned off."))
    subject = _shares_subject(options["make"], whole_run=options["run"])
    shared = share_links.find_shared(subject) if subject else None
    if shared is None:
        raise CommandError(_("There is no such object to share."))
    maker = owner()
    if not can_share(maker):
        raise CommandError(_("Sharing is turned off."))
    preview = f"{settings.ALLOWED_ORIGINS[0]}{reverse('share-preview', args=[shared.subject.path])}"
    if options["dry_run"]:
        document = {"kind": str(shared.subject.kind), "title": shared.title, "preview": preview}
        return Output(document, [_shares_what(shared), _("Preview: %s") % preview])
    link, token = share_links.make_link(shared, maker, days=options["days"], unfurls=options["unfurl"])
    address = f"{settings.ALLOWED_ORIGINS[0]}{reverse('shared', args=[token])}"
    lines = [_shares_what(shared), address, _("It is shown once. Expires: %s") % link.expires_at.isoformat()]
    return Output({**_shares_document(link), "address": address, "preview": preview}, lines)


def _shares_subject(text: str, *, whole_run: bool) -> share_links.Subject | None:
    """What the argument names. Raises CommandError for a checkpoint that does not exist."""
    if subject := share_links.subject_of(text, whole_run=whole_run):
        return subject
    if "#" not in text:
        return None
    row = checkpoint_at(text)
    if whole_run:
        return share_links.Subject(ShareLink.Kind.RUN, str(row.run.uid))
    return share_links.Subject(ShareLink.Kind.CHECKPOINT, str(reference_to(row)))


def _shares_what(shared: share_links.Shared) -> str:
    kind = ShareLink.Kind(shared.subject.kind).label
    return _("Shares: %(kind)s, %(title)s") % {"kind": kind, "title": shared.title}


def _shares_revoked(pk: int) -> Output:
    link = ShareLink.objects.select_related("made_by").filter(pk=pk).first()
    if link is None:
        raise CommandError(_("There is no share link %d.") % pk)
    share_links.revoke_link(link)
    return Output(_shares_document(link), [_("Revoked: %s") % link.title])


def _shares_document(link: ShareLink) -> dict[str, Any]:
    return {
        "id": link.pk,
        "kind": link.kind,
        "title": link.title,
        "state": str(share_links.link_state(link)),
        "made_by": link.made_by.get_username(),
        "created_at": link.created_at.isoformat(),
        "expires_at": link.expires_at.isoformat(),
        "revoked_at": link.revoked_at.isoformat() if link.revoked_at else None,
        "views": link.views,
        "unfurls": link.unfurls,
    }


def _shares_lines(links: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for link in links:
        line = ngettext(
            "%(id)d  %(state)s  until %(until)s  %(views)d view  %(kind)s  %(title)s",
            "%(id)d  %(state)s  until %(until)s  %(views)d views  %(kind)s  %(title)s",
            link["views"],
        )
        yield line % {**link, "until": minute_of(link["expires_at"])}
    if not links:
        yield _("There are no share links.")


SHARES = Subcommand(
    gettext_lazy("List share links, make one, or revoke one. Without options, list them."),
    _add_shares_arguments,
    _handle_shares,
)


# ``manage.py checkpoints export``.


def _add_export_arguments(parser: CommandParser) -> None:
    add_checkpoint_argument(parser, _("Any checkpoint of the run, or a checkpoint's file."))
    parser.add_argument(
        "--format", choices=tuple(ALL_FORMATS), default="html", help=_("The format (default: HTML).")
    )
    parser.add_argument(
        "--output",
        type=NEW_FILE,
        metavar="FILE",
        help=_(
            "The new file to write (default: named after the run, in this folder); - for standard output."
        ),
    )
    parser.add_argument(
        "--to",
        type=COLLECTOR,
        metavar="URL",
        help=_(
            "Send OpenTelemetry spans to a collector instead, such as http://localhost:4318. "
            "Headers and certificates come from the variables OTEL_EXPORTER_OTLP_…"
        ),
    )


def _handle_export(options: Mapping[str, Any]) -> Output:
    """Write the file, which must not exist, or return its text for standard output. Raises CommandError."""
    run, wanted = checkpoint_at(options["checkpoint"]).run, ALL_FORMATS[options["format"]]
    record(Action.EXPORTED, Audited.RUN, run.uid, options["format"])
    document = {"run": run.key, "format": options["format"]}
    if options["to"] is not None:
        return _sent(run, options, document)
    try:
        text = wanted.write(run)
    except NotReproducible as error:
        raise CommandError(translate(error)) from None
    name = file_name(run, wanted)
    if options["output"] == "-" or not is_at_terminal():
        return Output({**document, "text": text}, [], file=text, file_name=name)
    return written(document, options["output"] or name, text)


def _sent(run: Run, options: Mapping[str, Any], document: Mapping[str, Any]) -> Output:
    """Send the spans of the run to a collector. Raises CommandError."""
    if options["format"] not in OTLP or options["output"] is not None:
        raise CommandError(
            _("--to needs --format %(formats)s, and no --output.") % {"formats": " | ".join(OTLP)}
        )
    from viewer.presentation import export_spans

    address = options["to"]
    try:
        sent = export_spans.send(run, address, has_content=OTLP[options["format"]])
    except export_spans.NotSent as error:
        values = {"address": address, "reason": shortened(one_line(str(error)))}
        raise CommandError(_("%(address)s has not accepted the spans: %(reason)s") % values) from None
    line = ngettext("Sent %(count)d span to %(address)s.", "Sent %(count)d spans to %(address)s.", sent)
    values = {"count": sent, "address": address}
    return Output({**document, "sent": sent, "address": address}, [line % values])


EXPORT = Subcommand(
    gettext_lazy("Export the run of a checkpoint as one file, redacted."),
    _add_export_arguments,
    _handle_export,
)
