"""One page of a list of runs, with the links of its headings and filters."""

from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import QueryDict

from viewer.models import Run
from viewer.presentation.listing import Listing, choices, filter_in, headings
from viewer.presentation.run_list.filters import NEWEST_FIRST, STATUSES, columns, filtered
from viewer.presentation.run_list.rows import RunRow, rows_of

RUNS_A_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListPage(Listing[Run]):
    """A page of the list."""

    rows: list[RunRow]
    shows_location: bool

    @property
    def has_live_rows(self) -> bool:
        """Whether a row stops being live without a change of its location."""
        return any(row.status == "live" for row in self.rows)


def run_list(runs: QuerySet[Run], address: QueryDict, *, shows_location: bool) -> RunListPage:
    """Return the page of these runs for the query of an address."""
    wanted = filter_in(address, STATUSES, columns(), NEWEST_FIRST)
    found = filtered(runs, wanted)
    if shows_location:
        found = found.select_related("location")
    page = Paginator(found, RUNS_A_PAGE).get_page(address.get("page"))
    shown = [column for column in columns() if shows_location or column.key != "location"]
    return RunListPage(
        rows=rows_of(list(page.object_list)),
        page=page,
        filter=wanted,
        headings=headings(shown, wanted.sort, address),
        choices=choices(STATUSES, wanted.only, address),
        shows_location=shows_location,
    )
