"""Two or more checkpoints side by side."""

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_GET

from viewer.access.permissions import viewer_allowed
from viewer.comparison.candidates import candidates_for
from viewer.comparison.detail import detail_of
from viewer.comparison.sides import Compared, Side, compared
from viewer.comparison.table import row_in, table_of


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show the page, or return only the comparison to htmx. Its address is its whole state."""
    found = compared([*request.GET.getlist("a")[:1], *request.GET.getlist("b")])
    context: dict[str, Any] = {"compared": found, "shows_same": request.GET.get("show") == "all"}
    if len(found.sides) > 1:
        context["heads"] = [_head(request.GET, found, side) for side in found.sides]
        groups = table_of(found.sides, shows_same=context["shows_same"])
        row = row_in(groups, request.GET.get("row", ""))
        context |= {"groups": groups, "row": row, "detail": detail_of(row) if row else None}
        context["columns"] = zip(context["heads"], context["detail"].columns, strict=True) if row else []
        context["differs"] = any(one.differs and one.section for group in groups for one in group.rows)
        context["same_count"] = sum(len(group.same) for group in groups)
    elif found.sides:
        context["candidates"] = candidates_for(found.sides[0])
    is_part = request.headers.get("HX-Target") == "comparison"
    response = render(request, f"compare/{'_comparison' if is_part else 'page'}.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _head(query: QueryDict, found: Compared, side: Side) -> dict[str, Any]:
    """A side, and the queries of the comparisons with it as the baseline and without it."""
    others = [one for one in found.sides if one is not side]
    return {
        "side": side,
        "is_base": side is found.sides[0],
        "as_base": _query(query, [side, *others]),
        "without": _query(query, others) if len(others) > 1 else "",
    }


def _query(query: QueryDict, sides: list[Side]) -> str:
    """The query with these sides, the baseline first."""
    changed = query.copy()
    changed["a"] = str(sides[0].reference)
    changed.setlist("b", [str(side.reference) for side in sides[1:]])
    return changed.urlencode()
