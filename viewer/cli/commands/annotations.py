"""``forkline note``, ``comments``, ``shares`` and ``export``: what people write about checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.finding import add_checkpoint_argument, checkpoint_at
from viewer.cli.options import typed_text
from viewer.cli.output import (
    CHECKPOINT,
    NEW_FILE,
    NUMBER_FROM_ONE,
    TYPED_TEXT,
    Output,
    Subcommand,
    lines_of,
    written,
)
from viewer.engines.recorded_calls import NotReproducible
from viewer.messages.translation import translate
from viewer.models import Annotation, Checkpoint, Comment, Run, ShareLink
from viewer.presentation import share_links
from viewer.presentation.comparison_sides import reference_to
from viewer.presentation.export import ALL_FORMATS, OTLP, file_name
from viewer.records import annotations
from viewer.records.accounts import owner
from viewer.records.annotations import AnnotatedObject, annotate, annotation_of
from viewer.records.audit import Action, Audited, is_at_terminal, present_actor, record
from viewer.records.permissions import can_share
from viewer.validation import COLLECTOR, OPTIONAL_NAME, one_line, shortened

# ``manage.py checkpoints note``: shows and changes names, stars, labels and notes.


def _add_note_arguments(parser: CommandParser) -> None:
    add_checkpoint_argument(parser)
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--branch", action="store_true", help=_("Annotate the branch of the checkpoint."))
    about.add_argument("--run", action="store_true", help=_("Annotate the run of the checkpoint."))
    parser.add_argument("--name", type=OPTIONAL_NAME, help=_("The name. Empty removes it."))
    parser.add_argument(
        "--note", type=TYPED_TEXT, help=_("The note in Markdown. Empty removes it; - reads stdin.")
    )
    parser.add_argument(
        "--labels",
        type=OPTIONAL_NAME,
        metavar="LABEL,LABEL",
        help=_("The labels, separated by commas. Empty removes them."),
    )
    star = parser.add_mutually_exclusive_group()
    star.add_argument("--star", action="store_true", default=None, help=_("Add a star."))
    star.add_argument("--no-star", action="store_false", dest="star", help=_("Remove the star."))


def _handle_note(options: Mapping[str, Any]) -> Output:
    """What is annotated now. Raises CommandError."""
    subject = note_subject(options)
    labels, note = options["labels"], options["note"]
    changes = {
        "name": options["name"],
        "is_starred": options["star"],
        "labels": None if labels is None else [labels],
        "note": None if note is None else typed_text(note),
    }
    has_changes = any(value is not None for value in changes.values())
    found = annotate(subject, present_actor().user, **changes) if has_changes else annotation_of(subject)
    return Output(_note_document(subject, found), _note_lines(found))


def note_subject(options: Mapping[str, Any]) -> AnnotatedObject:
    """What the arguments name. Raises CommandError."""
    row = checkpoint_at(options["checkpoint"])
    if options["run"]:
        return AnnotatedObject(row.run)
    return (
        AnnotatedObject(row.run, row.branch)
        if options["branch"]
        else AnnotatedObject(row.run, "", row.checkpoint_id)
    )


def _note_document(subject: AnnotatedObject, found: Annotation) -> dict[str, Any]:
    return {
        "run": subject.run.key,
        "branch": subject.branch or None,
        "checkpoint": subject.checkpoint_id or None,
        "name": found.name,
        "starred": found.is_starred,
        "labels": found.labels,
        "note": found.note,
    }


def _note_lines(found: Annotation) -> list[str]:
    if found.is_empty:
        return [_("No name, star, label or note.")]
    head = " ".join(part for part in ("★" if found.is_starred else "", found.name) if part)
    lines = [head, ", ".join(found.labels), *lines_of(found.note)]
    return [line for line in lines if line]


NOTE = Subcommand(
    gettext_lazy("Show or change the name, star, labels and note of a checkpoint, its branch or its run."),
    _add_note_arguments,
    _handle_note,
)


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
        line = _("%(id)d  %(state)s  until %(until)s  %(views)d views  %(kind)s  %(title)s")
        yield line % {**link, "until": link["expires_at"][:16]}
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


def _add_comments_arguments(parser: CommandParser) -> None:
    add_checkpoint_argument(parser)
    add_checkpoint_argument(
        parser, _("Another checkpoint: the comments on the comparison of both."), "other", "?"
    )
    parser.add_argument(
        "--run", action="store_true", help=_("The comments on the run of the checkpoint, and all in it.")
    )
    parser.add_argument(
        "--add", type=TYPED_TEXT, metavar="TEXT", help=_("Add this comment in Markdown; - reads stdin.")
    )
    parser.add_argument(
        "--reply-to", type=NUMBER_FROM_ONE, metavar="ID", help=_("Add it to the discussion with this ID.")
    )


def _handle_comments(options: Mapping[str, Any]) -> Output:
    """The discussions, after a comment was added. Raises CommandError."""
    row = checkpoint_at(options["checkpoint"])
    subject = _comments_subject(row, options)
    if options["add"] is not None:
        try:
            annotations.write(subject, present_actor().user, typed_text(options["add"]), options["reply_to"])
        except annotations.NotWritten as error:
            raise CommandError(str(error)) from None
        except Comment.DoesNotExist:
            raise CommandError(_("There is no discussion %d about it.") % options["reply_to"]) from None
    elif options["reply_to"]:
        raise CommandError(_("--reply-to needs --add."))
    if subject.other:
        comments = annotations.on_comparison(subject)
    else:
        comments = annotations.comments_in(row.run) if options["run"] else annotations.on_checkpoint(row)
    found = [_comments_document(first) for first in annotations.discussions_in(comments)]
    return Output({"discussions": found}, _comments_lines(found))


def _comments_subject(row: Checkpoint, options: Mapping[str, Any]) -> annotations.Discussed:
    """What the comments are about. Raises CommandError."""
    if options["other"] is None:
        return annotations.Discussed(row.location, row.run, "" if options["run"] else row.checkpoint_id)
    if options["run"]:
        raise CommandError(_("--run is about one checkpoint only."))
    other = checkpoint_at(options["other"])
    if other.pk == row.pk:
        raise CommandError(_("Both are the same checkpoint."))
    return annotations.about_comparison(row, other)


def _comments_document(comment: Comment) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": comment.pk,
        "by": comment.written_by.get_username() if comment.written_by else None,
        "at": comment.written_at.isoformat(),
        "edited_at": comment.edited_at.isoformat() if comment.edited_at else None,
        "mentions": [one.get_username() for one in comment.mentioned.all()],
        "text": comment.text,
    }
    if comment.reply_to_id is None:
        document["checkpoint"] = comment.checkpoint_id or None
        document["compared_with"] = comment.other_checkpoint_id or None
        document["resolved_at"] = comment.resolved_at.isoformat() if comment.resolved_at else None
        document["resolved_by"] = comment.resolved_by.get_username() if comment.resolved_by else None
        document["replies"] = [_comments_document(reply) for reply in comment.replies.all()]
    return document


def _comments_lines(discussions: list[dict[str, Any]]) -> Iterator[str]:
    for first in discussions:
        state = _("resolved") if first["resolved_at"] else _("open")
        about = "".join(f"  {one}" for one in (first["checkpoint"], first["compared_with"]) if one)
        yield f"{first['id']}  {state}{about}"
        for comment in (first, *first["replies"]):
            yield f"  {comment['by'] or _('The terminal')}  {comment['at'][:16]}"
            yield from (f"    {line}" for line in lines_of(comment["text"] or _("This comment was deleted.")))
    if not discussions:
        yield _("No comments yet.")


COMMENTS = Subcommand(
    gettext_lazy("List what people discuss about a checkpoint, its run or a comparison, or add a comment."),
    _add_comments_arguments,
    _handle_comments,
)
