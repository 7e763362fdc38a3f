"""Two or more checkpoints side by side."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_GET

from viewer.access.permissions import viewer_allowed
from viewer.comparison.candidates import candidates_for
from viewer.comparison.detail import detail_of
from viewer.comparison.sides import Compared, Side, compared
from viewer.comparison.sweeps import members_of, unfinished_members
from viewer.comparison.table import row_in, table_of
from viewer.models import Sweep


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show the page, or return only the comparison to htmx. Its address is its whole state."""
    sweep = _sweep(request.GET.get("sweep", ""))
    members = members_of(sweep) if sweep else {}
    found = compared([*request.GET.getlist("a")[:1], *members, *request.GET.getlist("b")])
    context: dict[str, Any] = {"compared": found, "shows_same": request.GET.get("show") == "all"}
    context |= {"sweep": sweep, "unfinished": unfinished_members(sweep) if sweep else 0}
    is_adding = request.GET.get("add") == "1"
    if len(found.sides) > 1 and not is_adding:
        context["heads"] = [_head(request.GET, found, side, members) for side in found.sides]
        groups = table_of(found.sides, shows_same=context["shows_same"])
        row = row_in(groups, request.GET.get("row", ""))
        context |= {"groups": groups, "row": row, "detail": detail_of(row) if row else None}
        context["columns"] = zip(context["heads"], context["detail"].columns, strict=True) if row else []
        context["differs"] = any(one.differs and one.section for group in groups for one in group.rows)
        context["add_url"] = f"?{_query(request.GET, found.sides)}&add=1"
        context["same_count"] = sum(len(group.same) for group in groups)
    elif found.sides:
        context["candidates"] = _candidates(request.GET, found)
    is_part = request.headers.get("HX-Target") == "comparison"
    response = render(request, f"compare/{'_comparison' if is_part else 'page'}.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _sweep(text: str) -> Sweep | None:
    """The sweep with this id; None if there is none."""
    try:
        return Sweep.objects.select_related("checkpoint__run").filter(pk=UUID(text)).first()
    except ValueError:
        return None


def _head(query: QueryDict, found: Compared, side: Side, members: Mapping[str, str]) -> dict[str, Any]:
    """A side, its label in a sweep, and the queries with it as the baseline and without it."""
    others = [one for one in found.sides if one is not side]
    return {
        "side": side,
        "label": members.get(str(side.reference), ""),
        "is_base": side is found.sides[0],
        "as_base": _query(query, [side, *others]),
        "without": _query(query, others) if len(others) > 1 else "",
    }


def _candidates(query: QueryDict, found: Compared) -> list[dict[str, Any]]:
    """What can be added, with the query that adds it."""
    known = {side.checkpoint.pk for side in found.sides}
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
    changed.pop("sweep", None)
    changed["a"] = str(sides[0].reference)
    changed.pop("add", None)
    changed.setlist("b", [*(str(side.reference) for side in sides[1:]), *more])
    return changed.urlencode()
