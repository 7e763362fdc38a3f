"""What the tables of runs and of jobs share: columns that sort, filters, and the addresses of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.paginator import Page
from django.db.models import F, Model
from django.db.models.expressions import Combinable, OrderBy
from django.http import QueryDict
from django.utils.functional import Promise

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
