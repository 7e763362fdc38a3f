"""What pages show of collections: their items, and what adding to one has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.engines import engine_of
from viewer.formats import count_text
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Collection, CollectionItem
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.collections import NotCollected, Subject, checkpoints_of
from viewer.validation import MAX_DIGITS, InvalidInput, shortened, whole_number

ITEMS_A_PAGE = 100
# Numbers of lines that a sentence names.
MAX_LINES = 20
Kind = CollectionItem.Kind


def collections_with_counts() -> QuerySet[Any]:
    """All collections by name, each with its ``item_count``."""
    items = CollectionItem.objects.filter(collection=OuterRef("pk")).order_by().values("collection")
    count = Coalesce(Subquery(items.annotate(count=Count("pk")).values("count")), 0)
    return Collection.objects.annotate(item_count=count).select_related("made_by")


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item with its checkpoint; None if that is not here."""

    item: CollectionItem
    checkpoint: Checkpoint | None

    @property
    def title(self) -> str:
        """The name of the run, or what the item was called if its checkpoint is not here."""
        return str(self.checkpoint.run) if self.checkpoint else str(self.item)

    @property
    def address(self) -> str:
        """The page of what was collected; empty if its checkpoint is not here."""
        if self.checkpoint is None:
            return ""
        if self.item.kind == Kind.CALL:
            return reverse("checkpoint-call", args=[self.checkpoint.pk, self.item.part])
        tab = "&tab=messages" if self.item.kind == Kind.MESSAGE else ""
        return f"{self.checkpoint.get_absolute_url()}{tab}"

    @property
    def message_number(self) -> str:
        """The entry and number of a message, such as ``messages 4``; empty for anything else."""
        entry, _colon, position = self.item.part.rpartition(":")
        is_message = self.item.kind == Kind.MESSAGE and position.isdecimal() and len(position) < MAX_DIGITS
        return f"{entry} {int(position) + 1}" if is_message else ""


def item_views(items: Sequence[CollectionItem]) -> list[ItemView]:
    """The items with their checkpoints. The number of queries does not depend on the number of items."""
    found = checkpoints_of(items)
    return [ItemView(item, found.get(item.pk)) for item in items]


def pages_of(collection: Collection) -> Paginator[CollectionItem]:
    """The pages of its items, in the order in which they were added."""
    return Paginator(collection.items.all(), ITEMS_A_PAGE)


# What is added.


def subject_of(checkpoint: Checkpoint, kind: str, part: str) -> Subject:
    """A checkpoint, or the message or call of it that ``part`` names. Raises NotCollected."""
    name = f"{checkpoint.run}, {checkpoint.branch}"
    if kind not in (Kind.MESSAGE, Kind.CALL):
        return Subject(checkpoint, title=name)
    try:
        contents = readable_contents(checkpoint)
    except NotReadable as error:
        raise NotCollected(error.message) from None
    if kind == Kind.CALL:
        call = next((one for one in calls_in(contents) if one.name == part), None)
        if call is None:
            raise NotCollected("collection.no_call", name=shortened(part))
        return Subject(checkpoint, Kind.CALL, part, f"{name}, {call.agent or call.model}")
    entry, _colon, position = part.rpartition(":")
    messages = engine_of(contents).editable(contents).conversations.get(entry, ())
    try:
        at = whole_number(position, 0, 10**9)
    except InvalidInput:
        at = -1
    message = next((one for one in messages if one.position == at), None)
    if message is None:
        raise NotCollected("collection.no_message", name=shortened(part))
    return Subject(checkpoint, Kind.MESSAGE, f"{entry}:{at}", f"{name}, {message.role} {at + 1}")


def added_texts(added: int, present: int, kept: Sequence[int] = ()) -> list[str]:
    """Sentences about what was added, was there already, and the numbers of lines that differ from that."""
    text = ngettext("Added %(count)s item.", "Added %(count)s items.", added)
    found = [text % {"count": count_text(added)}]
    if present:
        found.append(_("Already in the collection: %(count)s.") % {"count": count_text(present)})
    if kept:
        shown = ", ".join(map(str, kept[:MAX_LINES])) + (" …" if len(kept) > MAX_LINES else "")
        message = ngettext(
            "The collection has another note or expected answer, which stays, than line %(lines)s.",
            "The collection has another note or expected answer, which stays, than lines %(lines)s.",
            len(kept),
        )
        found.append(message % {"lines": shown})
    return found
