"""What the tables of runs and of jobs share: columns that sort, filters, and the addresses of both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.db.models.expressions import Combinable, OrderBy
from django.http import QueryDict
from django.utils.functional import Promise

MAX_QUERY = 200


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``starts_high`` if the first click sorts the largest or newest to the top."""

    key: str
    label: str | Promise
    order: str | Combinable
    starts_high: bool = True
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column. ``url`` sorts by it, ``sorted`` is ascending, descending or empty."""

    label: str | Promise
    url: str
    sorted: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter above a table."""

    label: str | Promise
    url: str
    is_current: bool


def headings(columns: Iterable[Column], sort: str, address: QueryDict) -> list[Heading]:
    """Return the headings of a table sorted by the column ``sort``; ``-`` puts high values first."""
    return [_heading(column, sort, address) for column in columns]


def _heading(column: Column, sort: str, address: QueryDict) -> Heading:
    is_sorted = sort.removeprefix("-") == column.key
    is_high = sort.startswith("-")
    # A click on the sorted column turns its order round.
    goes_high = not is_high if is_sorted else column.starts_high
    return Heading(
        label=column.label,
        url=address_with(address, sort=f"{'-' if goes_high else ''}{column.key}"),
        sorted=("descending" if is_high else "ascending") if is_sorted else "",
        is_number=column.is_number,
    )


def choices(labels: Mapping[str, str | Promise], only: str, address: QueryDict) -> list[Choice]:
    """Return the filters of a table of which ``only`` is chosen."""
    return [Choice(label, address_with(address, only=key), key == only) for key, label in labels.items()]


def order_of(columns: Iterable[Column], sort: str) -> OrderBy:
    """Return the order of a sorted column, with unknown values last."""
    order: Any = next(column.order for column in columns if column.key == sort.removeprefix("-"))
    expression = F(order) if isinstance(order, str) else order
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
