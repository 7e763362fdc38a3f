"""One page of a list of runs, with the links of its headings and filters."""

from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.functional import Promise

from viewer.models import Run
from viewer.presentation.run_list.filters import STATUSES, Column, RunFilter, columns, filter_in
from viewer.presentation.run_list.rows import RunRow, rows_of

RUNS_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column. ``url`` sorts by it, ``sorted`` is ascending, descending or empty."""

    label: str | Promise
    url: str
    sorted: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter above the list."""

    label: str | Promise
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of the list. ``page`` holds its place among all pages."""

    rows: list[RunRow]
    page: Page[Run]
    filter: RunFilter
    headings: list[Heading]
    choices: list[Choice]
    shows_location: bool

    @property
    def count(self) -> int:
        """How many runs there are on all pages."""
        return self.page.paginator.count

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.headings)


def run_list(runs: QuerySet[Run], address: QueryDict, *, shows_location: bool) -> RunList:
    """Return the page of these runs that an address asks for."""
    wanted = filter_in(address)
    found = wanted.apply(runs)
    if shows_location:
        found = found.select_related("location")
    page = Paginator(found, RUNS_A_PAGE).get_page(address.get("page"))
    shown = [column for column in columns() if shows_location or column.key != "location"]
    return RunList(
        rows=rows_of(list(page.object_list)),
        page=page,
        filter=wanted,
        headings=[_heading(column, wanted, address) for column in shown],
        choices=[
            Choice(label, _url(address, only=only), only == wanted.only) for only, label in STATUSES.items()
        ],
        shows_location=shows_location,
    )


def _heading(column: Column, wanted: RunFilter, address: QueryDict) -> Heading:
    is_sorted = wanted.sort.removeprefix("-") == column.key
    is_high = wanted.sort.startswith("-")
    # A click on the sorted column turns its order round.
    goes_high = not is_high if is_sorted else column.starts_high
    return Heading(
        label=column.label,
        url=_url(address, sort=f"{'-' if goes_high else ''}{column.key}"),
        sorted=("descending" if is_high else "ascending") if is_sorted else "",
        is_number=column.is_number,
    )


def _url(address: QueryDict, **changes: str) -> str:
    """Return the address with these parameters, on its first page."""
    query = address.copy()
    for name, value in {**changes, "page": ""}.items():
        if value:
            query[name] = value
        else:
            query.pop(name, None)
    return f"?{query.urlencode()}" if query else "?"
