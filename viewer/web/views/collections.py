"""Collections: the list, one collection, adding to it, its items, and both ways as JSON Lines."""

import re
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.messages.translation import translate
from viewer.models import Collection, CollectionItem, Right
from viewer.presentation.collections import (
    added_texts,
    collections_with_counts,
    item_views,
    pages_of,
    subject_of,
)
from viewer.records import collections
from viewer.records.audit import Audited, opens
from viewer.records.permissions import person_of, requires
from viewer.web.launch.bulk_page import selected
from viewer.web.views.checkpoints import download
from viewer.web.views.shares import origin_of

# Checkpoints that are added at once: as many as a page lists.
MAX_SELECTED = 200


class ItemForm(forms.Form):
    """What people write about an item."""

    note = forms.CharField(
        label=gettext_lazy("Note"),
        required=False,
        max_length=collections.MAX_NOTE,
        widget=forms.Textarea(attrs={"class": "input", "rows": 4}),
    )
    expected = forms.CharField(
        label=gettext_lazy("Expected answer"),
        required=False,
        max_length=collections.MAX_EXPECTED,
        widget=forms.Textarea(attrs={"class": "input", "rows": 6, "spellcheck": "false"}),
    )


class AddForm(ItemForm):
    """The collection as well, by its name."""

    name = forms.CharField(
        label=gettext_lazy("Collection"),
        max_length=collections.MAX_NAME,
        widget=forms.TextInput(attrs={"class": "input", "list": "collections", "autocomplete": "off"}),
    )
    field_order = ("name", "note", "expected")


class CollectionForm(forms.Form):
    """The name and the description of a collection."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=collections.MAX_NAME,
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
    )
    description = forms.CharField(
        label=gettext_lazy("Description"),
        required=False,
        max_length=collections.MAX_DESCRIPTION,
        widget=forms.Textarea(attrs={"class": "input", "rows": 3}),
    )


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List all collections."""
    return render(request, "collections/list.html", {"collections": collections_with_counts()})


@requires(Right.ANNOTATE)
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    """Make a collection, or open the one that has this name."""
    try:
        made = collections.collection_named(request.POST.get("name", ""), person_of(request))
    except collections.NotCollected as error:
        context = {"collections": collections_with_counts(), "typed": request.POST.get("name", "")}
        return render(request, "collections/list.html", context | {"error": translate(error)}, status=422)
    return redirect(made)


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a page of the items of a collection."""
    return _page(request, _collection(pk))


def _page(request: HttpRequest, collection: Collection, **more: Any) -> HttpResponse:
    page = pages_of(collection).get_page(request.GET.get("page"))
    texts = {"name": collection.name, "description": collection.description}
    context = {
        "collection": collection,
        "page": page,
        "views": item_views(list(page)),
        "form": CollectionForm(initial=texts),
        "has_calls": collection.items.filter(kind=CollectionItem.Kind.CALL).exists(),
        **more,
    }
    return render(request, "collections/page.html", context, status=422 if more else 200)


@requires(Right.ANNOTATE)
@require_POST
def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Change the name and description of a collection."""
    collection, form = _collection(pk), CollectionForm(request.POST)
    try:
        if form.is_valid():
            collections.change_collection(
                collection, form.cleaned_data["name"], form.cleaned_data["description"]
            )
            messages.success(request, _("Saved."))
            return redirect(collection)
    except collections.NotCollected as error:
        form.add_error("name", translate(error))
    return _page(request, collection, form=form)


@requires(Right.ANNOTATE)
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a collection with its items."""
    collection = _collection(pk)
    collections.delete_collection(collection)
    messages.success(request, _("Deleted the collection “%(name)s”.") % {"name": collection.name})
    return redirect("collections")


@requires(Right.ANNOTATE)
@require_http_methods(["GET", "POST"])
def add(request: HttpRequest) -> HttpResponse:
    """Add the checkpoints that ``?run=`` and ``?checkpoint=`` name, or the ``?part=`` of one of them."""
    sent = request.POST if request.method == "POST" else request.GET
    form = AddForm(request.POST if request.method == "POST" else None)
    fields = [(name, value) for name in ("run", "checkpoint", "kind", "part") for value in sent.getlist(name)]
    context: dict[str, Any] = {"form": form, "fields": fields, "collections": collections_with_counts()}
    try:
        subjects, missing = _subjects(sent)
        context |= {"subjects": subjects, "missing": missing}
        if form.is_valid() and subjects:
            return _added(request, form.cleaned_data, subjects)
    except collections.NotCollected as error:
        context["notice"] = error.message
    return render(request, "collections/add.html", context, status=422 if form.is_bound else 200)


def _added(request: HttpRequest, texts: dict[str, str], subjects: list[collections.Subject]) -> HttpResponse:
    """Add them, and redirect to the collection. Raises NotCollected."""
    collection = collections.collection_named(texts["name"], person_of(request))
    new_items = collections.add_items(
        collection, subjects, person_of(request), texts["note"], texts["expected"]
    )
    count, present = len(new_items), len(subjects) - len(new_items)
    messages.success(request, " ".join(added_texts(count, present)))
    return redirect(collection)


def _subjects(sent: QueryDict) -> tuple[list[collections.Subject], list[str]]:
    """What is added, and the names of what is not there. Raises NotCollected."""
    runs, checkpoints = sent.getlist("run"), sent.getlist("checkpoint")
    if len(runs) + len(checkpoints) > MAX_SELECTED:
        raise collections.NotCollected("collection.too_many_selected", most=MAX_SELECTED)
    kind, part = sent.get("kind", ""), sent.get("part", "")
    found, missing = [], []
    for one in selected(list(dict.fromkeys(runs)), list(dict.fromkeys(checkpoints))):
        if one.checkpoint:
            found.append(subject_of(one.checkpoint, kind, part))
        else:
            missing.append(one.title)
    return found, missing


@requires(Right.ANNOTATE)
@require_http_methods(["GET", "POST"])
def item(request: HttpRequest, pk: int) -> HttpResponse:
    """The form with the note and the expected answer of an item."""
    found = get_object_or_404(CollectionItem.objects.select_related("collection"), pk=pk)
    texts = {"note": found.note, "expected": found.expected}
    form = ItemForm(request.POST if request.method == "POST" else None, initial=texts)
    context: dict[str, Any] = {"form": form, "seen": collections.seen_mark(found)}
    if form.is_valid():
        try:
            collections.change_item(found, **form.cleaned_data, seen=request.POST.get("seen"))
        except collections.ItemChanged as changed:
            context |= {"other": changed.current, "seen": collections.seen_mark(changed.current)}
        except collections.NotCollected as error:
            context["notice"] = error.message
        else:
            messages.success(request, _("Saved."))
            return redirect(found.collection)
    (view,) = item_views([found])
    status = 409 if "other" in context else 422 if form.is_bound else 200
    return render(request, "collections/item.html", {**context, "view": view}, status=status)


@requires(Right.ANNOTATE)
@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove an item from its collection."""
    found = get_object_or_404(CollectionItem.objects.select_related("collection"), pk=pk)
    collections.remove_item(found)
    messages.success(request, _("Removed from the collection."))
    return redirect(found.collection)


@requires(Right.VIEW)
@require_GET
def export(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the items as JSON Lines, which a browser never displays here."""
    collection = _collection(pk)
    opens(Audited.COLLECTION, collection.pk)
    name = re.sub(r"[^\w.-]+", "_", collection.name).strip("._")[:80] or "collection"
    return download(
        "".join(collections.lines_of(collection, origin_of(request))), f"{name}.jsonl", "application/jsonl"
    )


@requires(Right.ANNOTATE)
@require_POST
def import_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Add the items of a file of JSON Lines. Nothing is added if it has an error."""
    collection, file = _collection(pk), request.FILES.get("file")
    try:
        items = collections.items_in(file.read() if file else b"")
        imported = collections.import_items(collection, items, person_of(request))
    except collections.NotImported as error:
        return _page(request, collection, faults=error.errors, fault=error.message)
    except collections.NotCollected as error:
        return _page(request, collection, fault=error.message)
    sentences = added_texts(imported.added, imported.present, imported.kept)
    (messages.warning if imported.kept else messages.success)(request, " ".join(sentences))
    return redirect(collection)


def _collection(pk: int) -> Collection:
    return get_object_or_404(Collection, pk=pk)
