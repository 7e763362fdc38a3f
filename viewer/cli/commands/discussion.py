"""``forkline comments``: what people discuss about a checkpoint, its run or a comparison."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import typed_text
from viewer.cli.finding import add_checkpoint_argument, checkpoint_at
from viewer.cli.output import Output, Subcommand, lines_of
from viewer.cli.parsing import NUMBER_FROM_ONE, TYPED_TEXT
from viewer.models import Checkpoint, Comment
from viewer.records.audit import present_actor
from viewer.records.discussion import (
    Discussed,
    NotWritten,
    about_comparison,
    comments_in,
    discussions_in,
    on_checkpoint,
    on_comparison,
    write,
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
    subject = _subject(row, options)
    if options["add"] is not None:
        try:
            write(subject, present_actor().user, typed_text(options["add"]), options["reply_to"])
        except NotWritten as error:
            raise CommandError(str(error)) from None
        except Comment.DoesNotExist:
            raise CommandError(_("There is no discussion %d about it.") % options["reply_to"]) from None
    elif options["reply_to"]:
        raise CommandError(_("--reply-to needs --add."))
    if subject.other:
        comments = on_comparison(subject)
    else:
        comments = comments_in(row.run) if options["run"] else on_checkpoint(row)
    found = [_document(first) for first in discussions_in(comments)]
    return Output({"discussions": found}, _lines(found))


def _subject(row: Checkpoint, options: Mapping[str, Any]) -> Discussed:
    """What the comments are about. Raises CommandError."""
    if options["other"] is None:
        return Discussed(row.location, row.run, "" if options["run"] else row.checkpoint_id)
    if options["run"]:
        raise CommandError(_("--run is about one checkpoint only."))
    other = checkpoint_at(options["other"])
    if other.pk == row.pk:
        raise CommandError(_("Both are the same checkpoint."))
    return about_comparison(row, other)


def _document(comment: Comment) -> dict[str, Any]:
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
        document["replies"] = [_document(reply) for reply in comment.replies.all()]
    return document


def _lines(discussions: list[dict[str, Any]]) -> Iterator[str]:
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
