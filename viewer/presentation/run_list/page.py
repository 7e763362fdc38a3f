"""One page of a list of runs, with the links of its headings and filters."""

from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import QueryDict

from viewer.models import Run
from viewer.presentation.listing import Choice, Heading, choices, headings
from viewer.presentation.run_list.filters import STATUSES, RunFilter, columns, filter_in
from viewer.presentation.run_list.rows import RunRow, rows_of

RUNS_A_PAGE = 50


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
        """The number of runs on all pages."""
        return self.page.paginator.count

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.headings)


def run_list(runs: QuerySet[Run], address: QueryDict, *, shows_location: bool) -> RunList:
    """Return the page of these runs for the query of an address."""
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
        headings=headings(shown, wanted.sort, address),
        choices=choices(STATUSES, wanted.only, address),
        shows_location=shows_location,
    )
