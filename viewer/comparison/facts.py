"""What the rows of checkpoints say about them: run, branch, state, tokens and time."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from viewer.comparison.ancestry import duration_of
from viewer.comparison.scores import best_of, score_of, score_text, scores_of
from viewer.comparison.sides import Side, ValueKey
from viewer.engines.planning.editable import MISSING
from viewer.formats.amounts import count_text, duration, money
from viewer.formats.moments import moment_text
from viewer.presentation.run.triggers import title_of
from viewer.prices import current_prices

# What the keys of scores begin with, before the function.
SCORE = "score "
R = TypeVar("R")
MakeRow = Callable[[ValueKey, str, Sequence[Any]], R]


def facts_of(sides: Sequence[Side], row: MakeRow[R]) -> list[R]:
    """A row for each fact that any side has."""
    facts: list[tuple[str, str, list[str]]] = [
        ("run", _("Run"), [f"{side.checkpoint.run}" for side in sides]),
        ("checkpoint", _("Checkpoint"), [title_of(side.checkpoint) for side in sides]),
        ("duration", _("Duration"), [_duration(side) for side in sides]),
        ("models", _("Models"), [", ".join(sorted(filter(None, _models(side)))) for side in sides]),
        ("tokens", _("Tokens so far"), [_number(_tokens(side)) for side in sides]),
        ("cost", _("Cost so far"), [_cost(side) for side in sides]),
        ("created", _("Created"), [_moment(side) for side in sides]),
        ("engine", _("Engine version"), [side.checkpoint.engine_version for side in sides]),
    ]
    for function, scores in scores_of([side.checkpoint for side in sides]).items():
        best = best_of([score_of(job) for job in scores])
        texts = [score_text(job) for job in scores]
        shown = [
            _("%(score)s, best") % {"score": text} if at in best else text for at, text in enumerate(texts)
        ]
        facts.insert(0, (f"{SCORE}{function}", _("Score") + f" · {function}", shown))
    return [
        row(("", name, ""), label, [value or MISSING for value in values])
        for name, label, values in facts
        if any(values)
    ]


def _models(side: Side) -> list[str]:
    return [used.model for used in side.usage]


def _tokens(side: Side) -> int:
    return side.checkpoint.tokens or sum(used.tokens for used in side.usage)


def _duration(side: Side) -> str:
    """The time between its checkpoints; empty for none."""
    return duration(duration_of(side.line, side.sessions).total_seconds() or None)


def _cost(side: Side) -> str:
    """The price of the model calls so far, in US dollars; empty if no price is known."""
    cost = current_prices().cost(side.usage, side.checkpoint.created_at)
    if cost.amount is None:
        return ""
    shown = money(cost.amount)
    return _("at least %(cost)s") % {"cost": shown} if cost.unpriced_calls else shown


def _moment(side: Side) -> str:
    at = side.checkpoint.created_at
    return moment_text(at, "full") if at else ""


def _number(value: int) -> str:
    return count_text(value) if value else ""
