"""What tables share: columns that sort, filters, and the addresses of both. Then lists of locations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, F, Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import Combinable, OrderBy
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.formats import count_text
from viewer.host_requests import Pruned
from viewer.models import Location, Problem, Run
from viewer.validation import storable

MAX_QUERY = 200
# By the value in the address.
Statuses = Mapping[str, str | Promise]
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``starts_high`` if the first click sorts the largest or newest to the top.

    ``order`` is what it sorts by, or a function that returns it if it takes queries to describe.
    """

    key: str
    label: str | Promise
    order: str | Combinable | Callable[[], Combinable]
    starts_high: bool = True
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column. ``url`` sorts by it, ``sorted`` is ascending, descending or empty."""

    key: str
    label: str | Promise
    url: str
    sorted: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A filter above a table."""

    label: str | Promise
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter in the address of a list: of its status, of a text, and of a label."""

    only: str
    query: str
    label: str
    sort: str

    @property
    def is_narrow(self) -> bool:
        """Whether it excludes anything."""
        return bool(self.only or self.query or self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[M]):
    """A page of a list. ``page`` holds its position among all pages."""

    page: Page[M]
    filter: Filter
    headings: list[Heading]
    choices: list[TableFilter]

    @property
    def count(self) -> int:
        """The number of rows on all pages."""
        return self.page.paginator.count


def filter_in(address: QueryDict, statuses: Statuses, columns: Iterable[Column], sort: str) -> Filter:
    """Return the filter of an address, whose unknown values are ignored. ``sort`` is the usual order."""
    only, query, label = (storable(str(address.get(name, ""))) for name in ("only", "q", "label"))
    return Filter(
        only=only if only in statuses else "",
        query=query.strip()[:MAX_QUERY],
        label=label[:MAX_QUERY],
        sort=known_sort(str(address.get("sort", "")), columns, sort),
    )


def headings(columns: Iterable[Column], sort: str, address: QueryDict) -> list[Heading]:
    """Return the headings of a table sorted by the column ``sort``; ``-`` puts high values first."""
    return [_heading(column, sort, address) for column in columns]


def _heading(column: Column, sort: str, address: QueryDict) -> Heading:
    is_sorted = sort.removeprefix("-") == column.key
    is_high = sort.startswith("-")
    # A click on the sorted column turns its order round.
    goes_high = not is_high if is_sorted else column.starts_high
    return Heading(
        key=column.key,
        label=column.label,
        url=address_with(address, sort=f"{'-' if goes_high else ''}{column.key}"),
        sorted=("descending" if is_high else "ascending") if is_sorted else "",
        is_number=column.is_number,
    )


def choices(labels: Statuses, only: str, address: QueryDict) -> list[TableFilter]:
    """Return the filters of a table of which ``only`` is chosen."""
    return [TableFilter(label, address_with(address, only=key), key == only) for key, label in labels.items()]


def order_of(columns: Iterable[Column], sort: str) -> OrderBy:
    """Return the order of a sorted column, with unknown values last."""
    order: Any = next(column.order for column in columns if column.key == sort.removeprefix("-"))
    expression = F(order) if isinstance(order, str) else order() if callable(order) else order
    is_high = sort.startswith("-")
    by: OrderBy = expression.desc(nulls_last=True) if is_high else expression.asc(nulls_last=True)
    return by


def known_sort(sort: str, columns: Iterable[Column], default: str) -> str:
    """Return the order of an address if there is such a column, else ``default``."""
    return sort if sort.removeprefix("-") in {column.key for column in columns} else default


def address_with(address: QueryDict, **changes: str) -> str:
    """Return the address with these parameters, on its first page."""
    query = address.copy()
    for name, value in {**changes, "page": ""}.items():
        if value:
            query[name] = value
        else:
            query.pop(name, None)
    return f"?{query.urlencode()}" if query else "?"


# Locations in lists and choices.


LOCATIONS_A_PAGE = 50
# Locations that the home page and choices show; the others are found by their path.
MAX_OFFERED_LOCATIONS = 50
LOCATION_STATUSES: Statuses = {
    "": gettext_lazy("All"),
    "unreadable": gettext_lazy("Cannot be read"),
    "problems": gettext_lazy("With problems"),
}


def location_list(address: QueryDict) -> Listing[Location]:
    """Return the page of locations for an address, with their counts."""
    wanted = filter_in(address, LOCATION_STATUSES, (), "")
    found = Location.objects.matching(wanted.query) if wanted.query else Location.objects.all()
    if wanted.only == "unreadable":
        found = found.filter(read_error__isnull=False)
    elif wanted.only == "problems":
        found = found.filter(Exists(Problem.objects.filter(location=OuterRef("pk"))))
    page = Paginator(found.order_by("path", "pk"), LOCATIONS_A_PAGE).get_page(address.get("page"))
    # Counts only the rows of this page.
    keys = [location.pk for location in page.object_list]
    shown = Location.objects.with_counts().select_related("pool").filter(pk__in=keys)
    page.object_list = shown.order_by("path", "pk")
    return Listing(
        page=page, filter=wanted, headings=[], choices=choices(LOCATION_STATUSES, wanted.only, address)
    )


@dataclass(frozen=True, slots=True)
class LocationsAtHome:
    """The ``shown`` locations, and the numbers of all and of those that cannot be read."""

    shown: list[Location]
    count: int
    unreadable: int

    @property
    def is_partial(self) -> bool:
        return self.count > len(self.shown)


def locations_at_home() -> LocationsAtHome:
    """Return the locations with the newest runs, with their counts."""
    counts = Location.objects.aggregate(all=Count("pk"), unreadable=Count("pk", Q(read_error__isnull=False)))
    shown = Location.objects.with_counts().select_related("pool")
    shown = shown.filter(pk__in=_newest_keys(Location.objects.all()))
    return LocationsAtHome(list(shown), counts["all"], counts["unreadable"])


def offered_locations(locations: QuerySet[Location]) -> QuerySet[Location]:
    """Return those of these locations with the newest runs, by path."""
    return Location.objects.filter(pk__in=_newest_keys(locations))


def by_newest_run(locations: QuerySet[Location]) -> QuerySet[Location]:
    """Return these locations, those with the newest runs first."""
    runs = Run.objects.filter(location=OuterRef("pk"), last_at__isnull=False).order_by("-last_at")
    newest = locations.alias(newest=Subquery(runs.values("last_at")[:1]))
    return newest.order_by(F("newest").desc(nulls_last=True), "-pk")


def _newest_keys(locations: QuerySet[Location]) -> QuerySet[Location, int]:
    return by_newest_run(locations).values_list("pk", flat=True)[:MAX_OFFERED_LOCATIONS]


# Sentences about what was deleted of a location, for the page and the terminal.


# Checkpoints that are named.
MAX_NAMED = 3


def deleted_texts(location: Location, done: Pruned) -> list[str]:
    """Return a sentence that names the deleted checkpoints, the first ones at least, and one for copies."""
    texts, count = [], len(done.deleted)
    if done.deleted:
        text = ngettext(
            "Deleted %(count)s checkpoint of %(location)s: %(names)s.",
            "Deleted %(count)s checkpoints of %(location)s: %(names)s.",
            count,
        )
        names = ", ".join(done.deleted[:MAX_NAMED])
        if count > MAX_NAMED:
            names = _("%(ids)s and %(count)s more") % {
                "ids": names,
                "count": count_text(count - MAX_NAMED),
            }
        texts.append(text % {"count": count_text(count), "location": location.name, "names": names})
    if done.copies:
        text = ngettext(
            "Deleted %(count)s stored copy of %(location)s.",
            "Deleted %(count)s stored copies of %(location)s.",
            done.copies,
        )
        texts.append(text % {"count": count_text(done.copies), "location": location.name})
    return texts or [_("Nothing was deleted.")]
