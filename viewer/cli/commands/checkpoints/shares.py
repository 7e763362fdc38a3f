"""``manage.py checkpoints shares``: lists, makes and revokes share links."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import CHECKPOINT, NUMBER_FROM_ONE
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Output
from viewer.models import ShareLink
from viewer.presentation.comparison_references import reference_to
from viewer.presentation.share_links import EXPIRY_DAYS, link_state, make_link, subject_of
from viewer.presentation.shared_objects import Shared, Subject, find_shared
from viewer.records.permissions import can_share
from viewer.web.login_links import owner

HELP = gettext_lazy("List share links, make one, or revoke one. Without options, list them.")


def add_arguments(parser: CommandParser) -> None:
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
        choices=sorted(EXPIRY_DAYS),
        default=EXPIRY_DAYS[0],
        help=_("Days after which the link expires (default: %(days)d).") % {"days": EXPIRY_DAYS[0]},
    )
    parser.add_argument(
        "--unfurl", action="store_true", help=_("Let a chat show a preview where the link is pasted.")
    )
    parser.add_argument(
        "--dry-run", action="store_true", help=_("With --make: only print what the link would show.")
    )


def handle(options: Mapping[str, Any]) -> Output:
    """The links, the new one, or the revoked one. Raises CommandError."""
    if options["make"] is not None:
        return _made(options)
    if options["revoke"] is not None:
        return _revoked(options["revoke"])
    links = [_document(link) for link in ShareLink.objects.select_related("made_by")]
    return Output({"links": links}, list(_lines(links)))


def _made(options: Mapping[str, Any]) -> Output:
    if not settings.SHARING:
        raise CommandError(_("Sharing is turned off."))
    subject = _subject(options["make"], whole_run=options["run"])
    shared = find_shared(subject) if subject else None
    if shared is None:
        raise CommandError(_("There is no such object to share."))
    maker = owner()
    if not can_share(maker):
        raise CommandError(_("Sharing is turned off."))
    preview = f"{settings.ALLOWED_ORIGINS[0]}{reverse('share-preview', args=[shared.subject.path])}"
    if options["dry_run"]:
        document = {"kind": str(shared.subject.kind), "title": shared.title, "preview": preview}
        return Output(document, [_what(shared), _("Preview: %s") % preview])
    link, token = make_link(shared, maker, days=options["days"], unfurls=options["unfurl"])
    address = f"{settings.ALLOWED_ORIGINS[0]}{reverse('shared', args=[token])}"
    lines = [_what(shared), address, _("It is shown once. Expires: %s") % link.expires_at.isoformat()]
    return Output({**_document(link), "address": address, "preview": preview}, lines)


def _subject(text: str, *, whole_run: bool) -> Subject | None:
    """What the argument names. Raises CommandError for a checkpoint that does not exist."""
    if subject := subject_of(text, whole_run=whole_run):
        return subject
    if "#" not in text:
        return None
    row = checkpoint_at(text)
    if whole_run:
        return Subject(ShareLink.Kind.RUN, str(row.run.uid))
    return Subject(ShareLink.Kind.CHECKPOINT, str(reference_to(row)))


def _what(shared: Shared) -> str:
    kind = ShareLink.Kind(shared.subject.kind).label
    return _("Shares: %(kind)s, %(title)s") % {"kind": kind, "title": shared.title}


def _revoked(pk: int) -> Output:
    link = ShareLink.objects.select_related("made_by").filter(pk=pk).first()
    if link is None:
        raise CommandError(_("There is no share link %d.") % pk)
    link.revoke()
    return Output(_document(link), [_("Revoked: %s") % link.title])


def _document(link: ShareLink) -> dict[str, Any]:
    return {
        "id": link.pk,
        "kind": link.kind,
        "title": link.title,
        "state": str(link_state(link)),
        "made_by": link.made_by.get_username(),
        "created_at": link.created_at.isoformat(),
        "expires_at": link.expires_at.isoformat(),
        "revoked_at": link.revoked_at.isoformat() if link.revoked_at else None,
        "views": link.views,
        "unfurls": link.unfurls,
    }


def _lines(links: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for link in links:
        line = _("%(id)d  %(state)s  until %(until)s  %(views)d views  %(kind)s  %(title)s")
        yield line % {**link, "until": link["expires_at"][:16]}
    if not links:
        yield _("There are no share links.")
