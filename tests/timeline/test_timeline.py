"""The axis, tracks and summaries of a timeline, of spans that are made here."""

from datetime import UTC, datetime, timedelta

import pytest

from viewer.engines.recorded_calls import Span
from viewer.presentation.spans import timeline_of, window_in, zoom_of
from viewer.presentation.tracks import Axis
from viewer.records.prices import FilePrice, PriceFile, PriceList
from viewer.stores.protocol import ModelCall

BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
PRICES = PriceList(PriceFile({"m": FilePrice(1.0, 2.0, 0.5)}))


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def unit(name: str, start: float, end: float | None) -> Span:
    return Span(name, "unit", name, at(start), at(end) if end is not None else None)


def call(name: str, parent: str, start: float, end: float, model: str = "m", status: str = "done") -> Span:
    used = ModelCall(3_000_000, 2_000_000, 1_000_000, 0, model)
    return Span(name, "model", model, at(start), at(end), parent, status, "Writer", used)  # type: ignore[arg-type]


def test_a_long_gap_is_folded_and_its_length_shown() -> None:
    spans = [
        unit("a", 0, 10),
        Span("g", "gap", "until the fork", at(10), at(86_410)),
        unit("b", 86_410, 86_420),
    ]
    axis = Axis(spans)
    (fold,) = axis.folds
    assert (fold.seconds, fold.label, axis.worked) == (86_400, "until the fork", 20)
    assert axis.x(at(0)) == 0 and axis.x(at(86_420)) == 100
    assert axis.x(at(10)) < fold.x < axis.x(at(86_410)) < axis.x(at(10)) + 5


def test_a_short_pause_is_not_folded() -> None:
    assert Axis([unit("a", 0, 10), unit("b", 11, 20)]).folds == []


def test_a_wait_for_a_person_within_a_unit_is_folded() -> None:
    wait = Span("w", "wait", "waiting for a person", at(5), at(3_605), "a")
    view = timeline_of([unit("a", 0, 3_610), wait], prices=PRICES)
    assert [fold.label for fold in view.axis.folds] == ["waiting for a person"]
    assert view.axis.worked == 10 and view.tracks[0].seconds == 10


def test_positions_stay_in_order_for_any_spans() -> None:
    spans = [unit("a", 5, 1), unit("b", 3, None), call("c", "nowhere", 0, 0), unit("d", 1e9, 2e9)]
    view = timeline_of(spans, prices=PRICES)
    for track in view.tracks:
        for bar in [*track.bars, *([track.bar] if track.bar else [])]:
            assert 0 <= bar.x <= bar.x + bar.width <= 100.001
    assert view.tracks[-1].unit is None and [span.id for span in view.tracks[-1].spans] == ["c"]


def test_nothing_recorded_is_an_empty_timeline() -> None:
    view = timeline_of([], prices=PRICES)
    assert (list(view.tracks), view.total.calls, view.axis.worked) == ([], 0, 0)


def test_calls_are_added_up_by_agent_and_model_with_what_has_no_price() -> None:
    spans = [unit("a", 0, 10), call("c", "a", 1, 2), call("d", "a", 3, 5), call("e", "a", 6, 7, "other")]
    view = timeline_of(spans, prices=PRICES)
    assert [(row.label, row.calls, row.seconds) for row in view.by_agent] == [("Writer", 3, 4)]
    priced, unpriced = view.by_model
    assert (priced.label, priced.cost.amount, priced.cost.unpriced_calls) == ("m", 8, 0)
    assert (unpriced.label, unpriced.cost.amount, unpriced.cost.unpriced_calls) == ("other", None, 1)
    assert (view.total.cost.amount, view.total.cost.unpriced_calls) == (8, 1)


def test_an_attempt_is_labelled_unless_calls_are_drawn_on_it() -> None:
    attempts = [
        Span(name, "attempt", "failed attempt", at(start), at(start + 4), name[-1], "failed")
        for name, start in (("x-a", 0), ("x-b", 10))
    ]
    spans = [unit("a", 0, 10), unit("b", 10, 20), call("c", "a", 1, 3), *attempts]
    first, second = timeline_of(spans, prices=PRICES).tracks
    assert [bar.is_labelled for bar in first.bars] == [False, True]
    assert [(bar.is_labelled, bar.room) for bar in second.bars] == [(True, "phone")]


def test_the_time_after_a_failed_call_is_a_retry() -> None:
    spans = [unit("a", 0, 10), call("c", "a", 1, 2, status="failed"), call("d", "a", 5, 6)]
    kinds = sorted(bar.kind for bar in timeline_of(spans, prices=PRICES).tracks[0].bars)
    assert kinds == ["failed", "model", "retry"]


def test_a_unit_that_ran_again_is_numbered() -> None:
    spans = [unit("a", 0, 1), Span("b", "unit", "a", at(2), at(3))]
    assert [track.label for track in timeline_of(spans, prices=PRICES).tracks] == ["a", "a (run 2)"]


def test_selecting_a_call_selects_its_track() -> None:
    view = timeline_of([unit("a", 0, 9), call("c", "a", 1, 2)], "c", prices=PRICES)
    assert view.selected and view.track and view.track.label == "a"
    assert timeline_of([unit("a", 0, 9)], "gone", prices=PRICES).selected is None


@pytest.mark.parametrize(
    "window", [("nan", "50"), ("-1", "50"), ("50", "50"), ("x", ""), ("0", "101"), ("inf", "")]
)
def test_an_address_with_another_window_shows_everything(window: tuple[str, str]) -> None:
    assert window_in(*window) == (0.0, 100.0)


def test_zooming_in_and_out_leads_back_to_everything() -> None:
    assert zoom_of((0.0, 100.0)) == {"Zoom in": (25.0, 75.0)}
    assert zoom_of((25.0, 75.0))["Zoom out"] == (0.0, 100.0)
    assert "Zoom in" not in zoom_of((0.0, 0.6))


def test_ticks_are_round_and_within_the_window() -> None:
    ticks = Axis([unit("a", 0, 44)], (25.0, 75.0)).ticks
    assert [tick.seconds for tick in ticks] == [15, 20, 25, 30] and all(0 <= tick.x <= 100 for tick in ticks)
