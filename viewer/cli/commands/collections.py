"""``forkline collection``: collections of checkpoints, messages and calls."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.finding import checkpoint_at, existing_collection
from viewer.cli.output import (
    CHECKPOINT,
    NEW_FILE,
    NUMBER_FROM_ONE,
    READ_FILE,
    Output,
    Subcommand,
    lines_of,
    written,
)
from viewer.messages.translation import translate
from viewer.models import Collection, CollectionItem
from viewer.presentation.collections import (
    ItemView,
    added_texts,
    collections_with_counts,
    item_views,
    subject_of,
)
from viewer.records import collections
from viewer.records.audit import Action, Audited, is_at_terminal, present_actor, record
from viewer.records.collections import MAX_BYTES, MAX_ITEMS, NotCollected, NotImported
from viewer.validation import NAME, TEXT, InvalidInput, content_of

Kind = CollectionItem.Kind


def _add_arguments(parser: CommandParser) -> None:
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


def _handle(options: Mapping[str, Any]) -> Output:
    """The collections, or the items of one. Raises CommandError."""
    _check(options)
    if options["name"] is None:
        found = list(collections_with_counts())
        rows = [{"name": one.name, "description": one.description, "items": one.item_count} for one in found]
        return Output({"collections": rows}, list(_list_lines(rows)))
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


def _check(options: Mapping[str, Any]) -> None:
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
        return _added(options)
    if options["import_file"]:
        items, person = collections.items_in(_imported(options["import_file"])), present_actor().user
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
        collections.remove_item(_item(collection, options["remove"]))
        return Output({"removed": options["remove"]}, [_("Removed from the collection.")])
    if options["item"]:
        item = _item(collection, options["item"])
        note, expected = (
            getattr(item, name) if options[name] is None else options[name] for name in ("note", "expected")
        )
        collections.change_item(item, note, expected)
        return _shown([_item(collection, item.pk)], collection)
    if options["export"]:
        return _exported(collection, options["export"])
    record(Action.OPENED, Audited.COLLECTION, collection.pk)
    return _shown(list(collection.items.all()), collection)


def _imported(file: str) -> bytes:
    """The content of a file; a program sends the content itself. Raises CommandError."""
    if not is_at_terminal():
        return file.encode()
    try:
        return content_of(file, MAX_BYTES)
    except InvalidInput as error:
        raise CommandError(str(error.of("--import"))) from None


def _added(options: Mapping[str, Any]) -> Output:
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


def _item(collection: Collection, pk: int) -> CollectionItem:
    found = collection.items.filter(pk=pk).first()
    if found is None:
        raise CommandError(_("The collection has no item %d.") % pk)
    return found


def _exported(collection: Collection, name: str) -> Output:
    """Write the file, which must not exist, or return its text for standard output. Raises CommandError."""
    record(Action.EXPORTED, Audited.COLLECTION, collection.pk)
    text = "".join(collections.lines_of(collection, settings.ALLOWED_ORIGINS[0]))
    if name == "-":
        return Output({"text": text}, [], file=text)
    return written({}, name, text)


def _shown(items: Sequence[CollectionItem], collection: Collection) -> Output:
    views = item_views(items)
    documents = [_document(view) for view in views]
    return Output({"name": collection.name, "items": documents}, list(_item_lines(views)))


def _document(view: ItemView) -> dict[str, Any]:
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


def _list_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"{row['name']}  {row['items']}"
    if not rows:
        yield _("There are no collections.")


COLLECTION = Subcommand(
    gettext_lazy("List collections of checkpoints, messages and calls, or add to, export or import one."),
    _add_arguments,
    _handle,
)
