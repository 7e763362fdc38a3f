"""``forkline note`` and ``comments``: what people write about checkpoints."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.finding import add_checkpoint_argument, checkpoint_at
from viewer.cli.options import typed_text
from viewer.cli.output import NUMBER_FROM_ONE, TYPED_TEXT, Output, Subcommand, lines_of, minute_of
from viewer.models import Annotation, Checkpoint, Comment
from viewer.records import annotations
from viewer.records.annotations import AnnotatedObject, annotate, annotation_of
from viewer.records.audit import present_actor
from viewer.validation import OPTIONAL_NAME

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
    if options["branch"]:
        return AnnotatedObject(row.run, row.branch)
    return AnnotatedObject(row.run, "", row.checkpoint_id)


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
            yield f"  {comment['by'] or _('The terminal')}  {minute_of(comment['at'])}"
            yield from (f"    {line}" for line in lines_of(comment["text"] or _("This comment was deleted.")))
    if not discussions:
        yield _("No comments yet.")


COMMENTS = Subcommand(
    gettext_lazy("List what people discuss about a checkpoint, its run or a comparison, or add a comment."),
    _add_comments_arguments,
    _handle_comments,
)
