"""Two or more checkpoints side by side."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import uuid4, uuid5

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_GET, require_POST

from viewer.engines.contents import Section
from viewer.launching.refusals import LaunchRefused
from viewer.launching.sweep import score as start_score
from viewer.models import Job, Right, Sweep, uuid_of
from viewer.presentation import comparison
from viewer.presentation.comparison_sides import (
    Comparison,
    Side,
    candidates_for,
    candidates_like,
    compared,
    sides_by_score,
)
from viewer.presentation.listing import MAX_QUERY
from viewer.presentation.sweeps import members_of
from viewer.records.annotations import about_comparison, address_of, comments_about
from viewer.records.audit import Audited, opens
from viewer.records.permissions import requires
from viewer.web.launch.prefilled import differing_messages, editable_parts_of
from viewer.web.views.checkpoints import download

# Messages of a conversation that a side offers for a fork of another one.
MAX_MESSAGE_LINKS = 50


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show the page, or return only the comparison to htmx. Its address is its whole state."""
    sweep = _sweep(request.GET.get("sweep", ""))
    members = members_of(sweep) if sweep else {}
    found = _compared(request.GET, members)
    context: dict[str, Any] = {"compared": found, "shows_same": request.GET.get("show") == "all"}
    context |= {"export_formats": comparison.COMPARISON_FORMATS, "sort": request.GET.get("sort", "")}
    context |= {"sweep": sweep, "unfinished": sweep.branches.unfinished().count() if sweep else 0}
    is_adding = request.GET.get("add") == "1"
    if len(found.sides) > 1 and not is_adding:
        context["heads"] = [_head(request.GET, found, side, members) for side in found.sides]
        context |= table_context(request, found, context["heads"])
        if context["row"]:
            _link_to_forks(request, context["heads"], context["row"])
        scorings = Job.objects.scores_of([side.checkpoint.pk for side in found.sides])
        newest = scorings.order_by("-created_at").first()
        # The function that scored one of the sides last; empty if none has.
        function = str(newest.request.get("function") or "") if newest else ""
        function = request.GET.get("function", function)
        context |= {"key": uuid4(), "function": function, "scoring": scorings.unfinished().count()}
        target = _query(QueryDict(), found.sides)
        context["export_query"] = target
        context["share_url"] = reverse("share", query={"kind": "comparison", "target": target})
        if len(found.sides) == 2:
            context |= _discussed(found.sides)
        context["add_url"] = f"?{_query(request.GET, found.sides)}&add=1"
    else:
        text = request.GET.get("find", "").strip()[:MAX_QUERY]
        context |= {"find": text, "candidates": _candidates(request.GET, found, text)}
    is_part = request.headers.get("HX-Target") == "comparison"
    response = render(request, f"compare/{'_comparison' if is_part else 'page'}.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _discussed(sides: list[Side]) -> dict[str, Any]:
    """Return the address of the comments on two sides, and how many discussions are open."""
    subject = about_comparison(*(side.checkpoint for side in sides))
    return {
        "comments_url": address_of(subject),
        # Called if several people use this server.
        "open_discussions": lambda: comments_about(subject).open_discussions().count(),
    }


def _link_to_forks(request: HttpRequest, heads: list[dict[str, Any]], row: comparison.ComparedRow) -> None:
    """Add to each head the address of a fork of another side with its value of this row, if there is one.

    Of a conversation, those of its messages. The other side is the baseline; for the baseline itself, the
    only other one.
    """
    for at, (head, cell) in enumerate(zip(heads, row.cells, strict=True)):
        other = heads[0] if at else heads[1]
        if (at == 0 and len(heads) > 2) or (at and cell.is_same) or not row.differs:
            continue
        source, target = head["side"], other["side"]
        mine, theirs = source.part_named(row.key), target.part_named(row.key)
        if not (mine and theirs and source.contents and target.contents):
            continue
        editable = editable_parts_of(request.user, target.checkpoint, target.contents)

        def address(part: str, value: str, source: Side = source, target: Side = target) -> str:
            query = {"edit": part, "value": f"{source.checkpoint.pk}:{value}"}
            return reverse("fork", args=[target.checkpoint.pk], query=query)

        if mine.edited and theirs.edited in editable:
            head["fork_url"] = address(theirs.edited, mine.edited)
        elif mine.section == Section.MESSAGES:
            parts = differing_messages(mine.key, source.contents, target.contents)
            links = {number: address(part, part) for number, part in parts.items() if part in editable}
            head["message_urls"] = dict(islice(links.items(), MAX_MESSAGE_LINKS))


def table_context(request: HttpRequest, found: Comparison, heads: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the context of the table, with the details of the selected row."""
    groups = comparison.table_of(found.sides, shows_same=request.GET.get("show") == "all")
    row = comparison.row_in(groups, request.GET.get("row", ""))
    detail = comparison.detail_of(row) if row else None
    return {
        "groups": groups,
        "row": row,
        "detail": detail,
        "columns": zip(heads, detail.columns, strict=True) if detail else [],
        "differs": any(one.differs and one.section for group in groups for one in group.rows),
        "same_count": sum(len(group.same) for group in groups),
    }


@requires(Right.VIEW)
@require_GET
def export(request: HttpRequest) -> HttpResponse:
    """Return a comparison in a format as a download, which a browser never displays here."""
    wanted = comparison.COMPARISON_FORMATS.get(request.GET.get("format", "html"))
    sweep = _sweep(request.GET.get("sweep", ""))
    found = _compared(request.GET, members_of(sweep) if sweep else {})
    if wanted is None:
        raise Http404
    if len(found.sides) < 2:
        # There is nothing to compare yet: the page offers what to choose.
        return redirect(f"{reverse('compare')}?{request.GET.urlencode()}")
    name = comparison.comparison_file_name(found, wanted)
    return download(wanted.write(found), name, f"{wanted.media_type}; charset=utf-8")


def _compared(query: QueryDict, members: Mapping[str, str]) -> Comparison:
    """The sides that an address names, in its order."""
    found = compared([*query.getlist("a")[:1], *members, *query.getlist("b")])
    opens(Audited.COMPARISON, " ".join(str(side.checkpoint.pk) for side in found.sides))
    return replace(found, sides=sides_by_score(found.sides, query.get("sort", "")))


def _sweep(text: str) -> Sweep | None:
    """The sweep with this id; None if there is none."""
    uid = uuid_of(text)
    return Sweep.objects.select_related("checkpoint__run").filter(pk=uid).first() if uid else None


def _head(query: QueryDict, found: Comparison, side: Side, members: Mapping[str, str]) -> dict[str, Any]:
    """A side, its label in a sweep, and the queries with it as the baseline and without it."""
    others = [one for one in found.sides if one is not side]
    return {
        "side": side,
        "label": members.get(str(side.reference), ""),
        "is_base": side is found.sides[0],
        "as_base": _query(query, [side, *others]),
        "without": _query(query, others) if len(others) > 1 else "",
    }


def _candidates(query: QueryDict, found: Comparison, text: str) -> list[dict[str, Any]]:
    """What this text finds, else what belongs to the baseline, each with the query that adds it."""
    known = {side.checkpoint.pk for side in found.sides}
    groups = candidates_like(text) if text else []
    if found.sides and not text:
        groups = candidates_for(found.sides[0])
    return [
        {
            "label": group.label,
            "found": [
                {"heading": one.heading, "query": _query(query, found.sides, str(one.reference))}
                for one in group.found
                if one.key not in known
            ],
        }
        for group in groups
    ]


def _query(query: QueryDict, sides: list[Side], *more: str) -> str:
    """The query with these sides, the baseline first, and with more references."""
    changed = query.copy()
    # The sides are named one by one from now on.
    for name in ("sweep", "add", "find"):
        changed.pop(name, None)
    first, *others = [*(str(side.reference) for side in sides), *more]
    changed["a"] = first
    changed.setlist("b", others)
    return changed.urlencode()


@requires(Right.RUN)
@require_POST
def score(request: HttpRequest) -> HttpResponse:
    """Score every side of a comparison with a function of its project, in jobs. The same form starts once."""
    found = compared([*request.POST.getlist("a")[:1], *request.POST.getlist("b")])
    function = request.POST.get("function", "").strip()
    # Nothing is found by the key of an altered form.
    key = uuid_of(request.POST.get("key", "")) or uuid4()
    user = request.user if isinstance(request.user, User) else None
    # Keep the name of a function that is refused in the form.
    query = QueryDict(mutable=True)
    for side in found.sides:
        try:
            start_score(
                side.checkpoint, function, requested_by=user, key=uuid5(key, f"{side.reference} {function}")
            )
        except LaunchRefused as refused:
            messages.error(request, str(refused))
            query["function"] = function
            break
    return redirect(f"{reverse('compare')}?{_query(query, found.sides)}" if found.sides else "compare")
