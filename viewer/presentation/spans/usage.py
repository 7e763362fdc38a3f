"""The usage of the units, agents and models of a timeline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from viewer.engines.spans import Span
from viewer.presentation.spans.tracks import cost_of
from viewer.prices import PriceList
from viewer.prices.price_list import Cost


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A line of a summary: the number of calls, and their seconds, tokens and cost."""

    label: str
    calls: int
    seconds: float
    tokens_in: int
    tokens_out: int
    tokens: int
    cost: Cost


def usage_by(spans: Sequence[Span], prices: PriceList, name_of: Callable[[Span], str]) -> list[UsageRow]:
    """The usage of the model calls among these spans by name, most tokens first."""
    calls: dict[str, list[Span]] = {}
    for span in spans:
        if span.kind == "model":
            calls.setdefault(name_of(span), []).append(span)
    rows = [_row(name or _("not recorded"), some, prices) for name, some in calls.items()]
    return sorted(rows, key=lambda row: -row.tokens)


def total_of(spans: Sequence[Span], prices: PriceList) -> UsageRow:
    """The usage of all model calls among these spans."""
    return _row(_("Total"), [span for span in spans if span.kind == "model"], prices)


def _row(label: str, calls: Sequence[Span], prices: PriceList) -> UsageRow:
    return UsageRow(
        label,
        len(calls),
        sum(span.seconds for span in calls),
        sum(span.call.tokens_in for span in calls),
        sum(span.call.tokens_out for span in calls),
        sum(span.call.tokens for span in calls),
        cost_of(calls, prices),
    )
