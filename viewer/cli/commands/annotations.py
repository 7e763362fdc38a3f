"""``forkline note``, ``comments`` and ``collection``: what people write about and collect of checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli import (
    CHECKPOINT,
    NEW_FILE,
    NUMBER_FROM_ONE,
    READ_FILE,
    TYPED_TEXT,
    Output,
    Subcommand,
    lines_of,
    minute_of,
    written,
)
from viewer.cli.arguments import typed_text
from viewer.cli.finding import add_checkpoint_argument, checkpoint_at, existing_collection
from viewer.messages.translation import translate
from viewer.models import Annotation, Checkpoint, Collection, CollectionItem, Comment
from viewer.presentation.collections import (
    ItemView,
    added_texts,
    collections_with_counts,
    item_views,
    subject_of,
)
from viewer.records import annotations, collections
from viewer.records.annotations import AnnotatedObject, annotate, annotation_of
from viewer.records.audit import Action, Audited, is_at_terminal, present_actor, record
from viewer.records.collections import MAX_BYTES, MAX_ITEMS, NotCollected, NotImported
from viewer.validation import NAME, OPTIONAL_NAME, TEXT, InvalidInput, content_of


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
    subject = _note_subject(options)
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


def _note_subject(options: Mapping[str, Any]) -> AnnotatedObject:
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
    comments = annotations.comments_about(subject)
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


Kind = CollectionItem.Kind


def _add_collection_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        type=NAME,
        metavar="NAME",
        help=_("The name of a collection. Without it, all are listed."),
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--add",
        action="append",
        type=CHECKPOINT,
        metavar="LOCATION#ID",
        help=_("Add a checkpoint. May be repeated. A collection that does not exist is made."),
    )
    what.add_argument(
        "--item", type=NUMBER_FROM_ONE, metavar="ID", help=_("Change the item with this ID of the list.")
    )
    what.add_argument(
        "--remove", type=NUMBER_FROM_ONE, metavar="ID", help=_("Remove the item with this ID of the list.")
    )
    what.add_argument(
        "--import",
        dest="import_file",
        type=READ_FILE,
        metavar="FILE",
        help=_("Add the items of a file of JSON Lines. Nothing is added if it has an error."),
    )
    what.add_argument(
        "--export",
        type=NEW_FILE,
        metavar="FILE",
        help=_("Write the items as JSON Lines to a new file; - for standard output."),
    )
    what.add_argument("--delete", action="store_true", help=_("Delete the collection. The checkpoints stay."))
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--call", type=NAME, metavar="CALL", help=_("With --add: the model call of this name."))
    part.add_argument(
        "--message",
        type=NAME,
        metavar="ENTRY:NUMBER",
        help=_("With --add: the message at this position of an entry of the state, from 0."),
    )
    parser.add_argument("--note", type=TEXT, help=_("With --add or --item: the note in Markdown."))
    parser.add_argument("--expected", type=TEXT, help=_("With --add or --item: the expected answer."))


def _handle_collection(options: Mapping[str, Any]) -> Output:
    """The collections, or the items of one. Raises CommandError."""
    _check_collection_options(options)
    if options["name"] is None:
        found = list(collections_with_counts())
        rows = [{"name": one.name, "description": one.description, "items": one.item_count} for one in found]
        return Output({"collections": rows}, list(_collection_lines(rows)))
    try:
        return _of_collection(options)
    except NotImported as error:
        lines = [
            _("Line %(number)s: %(error)s") % {"number": number, "error": translate(message)}
            for number, message in error.errors
        ]
        raise CommandError(" ".join([translate(error), *lines])) from None
    except NotCollected as error:
        raise CommandError(translate(error)) from None


def _check_collection_options(options: Mapping[str, Any]) -> None:
    """Raise CommandError for options that need another one."""
    actions = ("add", "item", "remove", "import_file", "export", "delete")
    if options["name"] is None and any(
        options[name] for name in (*actions, "call", "message", "note", "expected")
    ):
        raise CommandError(_("Name the collection first."))
    if (options["call"] or options["message"]) and not options["add"]:
        raise CommandError(_("--call and --message need --add."))
    if any(options[name] is not None for name in ("note", "expected")) and not (
        options["add"] or options["item"]
    ):
        raise CommandError(_("--note and --expected need --add or --item."))


def _of_collection(options: Mapping[str, Any]) -> Output:
    """Do what the options say with a collection. Raises NotCollected and CommandError."""
    if options["add"]:
        return _items_added(options)
    if options["import_file"]:
        items, person = collections.items_in(_imported_content(options["import_file"])), present_actor().user
        done = collections.import_items(collections.collection_named(options["name"], person), items, person)
        document = {"added": done.added, "present": done.present, "kept_lines": list(done.kept)}
        return Output(document, added_texts(done.added, done.present, done.kept))
    collection = existing_collection(options["name"])
    if options["delete"]:
        collections.delete_collection(collection)
        return Output(
            {"deleted": collection.name},
            [_("Deleted the collection “%(name)s”.") % {"name": collection.name}],
        )
    if options["remove"]:
        collections.remove_item(_item_of(collection, options["remove"]))
        return Output({"removed": options["remove"]}, [_("Removed from the collection.")])
    if options["item"]:
        item = _item_of(collection, options["item"])
        note, expected = (
            getattr(item, name) if options[name] is None else options[name] for name in ("note", "expected")
        )
        collections.change_item(item, note, expected)
        return _items_shown([_item_of(collection, item.pk)], collection)
    if options["export"]:
        return _items_exported(collection, options["export"])
    record(Action.OPENED, Audited.COLLECTION, collection.pk)
    return _items_shown(list(collection.items.all()), collection)


def _imported_content(file: str) -> bytes:
    """The content of a file; a program sends the content itself. Raises CommandError."""
    if not is_at_terminal():
        return file.encode()
    try:
        return content_of(file, MAX_BYTES)
    except InvalidInput as error:
        raise CommandError(str(error.of("--import"))) from None


def _items_added(options: Mapping[str, Any]) -> Output:
    kind = Kind.CALL if options["call"] else Kind.MESSAGE if options["message"] else Kind.CHECKPOINT
    part = options["call"] or options["message"] or ""
    names = list(dict.fromkeys(options["add"]))
    if len(names) > MAX_ITEMS:
        raise NotCollected("collection.too_many_items", most=MAX_ITEMS)
    subjects = [subject_of(checkpoint_at(name), kind, part) for name in names]
    person = present_actor().user
    collection = collections.collection_named(options["name"], person)
    texts = options["note"] or "", options["expected"] or ""
    items = collections.add_items(collection, subjects, person, *texts)
    document = {"added": [item.pk for item in items], "present": len(subjects) - len(items)}
    return Output(document, added_texts(len(items), len(subjects) - len(items)))


def _item_of(collection: Collection, pk: int) -> CollectionItem:
    found = collection.items.filter(pk=pk).first()
    if found is None:
        raise CommandError(_("The collection has no item %d.") % pk)
    return found


def _items_exported(collection: Collection, name: str) -> Output:
    """Write the file, which must not exist, or return its text for standard output. Raises CommandError."""
    record(Action.EXPORTED, Audited.COLLECTION, collection.pk)
    text = "".join(collections.lines_of(collection, settings.ALLOWED_ORIGINS[0]))
    if name == "-":
        return Output({"text": text}, [], file=text)
    return written({}, name, text)


def _items_shown(items: Sequence[CollectionItem], collection: Collection) -> Output:
    views = item_views(items)
    documents = [_item_document(view) for view in views]
    return Output({"name": collection.name, "items": documents}, list(_item_lines(views)))


def _item_document(view: ItemView) -> dict[str, Any]:
    item = view.item
    return {
        "id": item.pk,
        "kind": item.kind,
        "title": view.title,
        "target": view.checkpoint.target if view.checkpoint else None,
        "run": item.run_key,
        "checkpoint": item.checkpoint_id,
        "part": item.part or None,
        "note": item.note,
        "expected": item.expected,
    }


def _item_lines(views: Sequence[ItemView]) -> Iterator[str]:
    for view in views:
        item = view.item
        target = (
            view.checkpoint.target if view.checkpoint else f"{item.checkpoint_id} ({_('not found here')})"
        )
        yield "  ".join(filter(None, [str(item.pk), item.get_kind_display(), view.title, target, item.part]))
        yield from (f"    {line}" for line in lines_of(item.note) if line)
        if item.expected:
            yield f"    {_('Expected answer')}:"
            yield from (f"      {line}" for line in lines_of(item.expected))
    if not views:
        yield _("The collection has no items.")


def _collection_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"{row['name']}  {row['items']}"
    if not rows:
        yield _("There are no collections.")


COLLECTION = Subcommand(
    gettext_lazy("List collections of checkpoints, messages and calls, or add to, export or import one."),
    _add_collection_arguments,
    _handle_collection,
)
