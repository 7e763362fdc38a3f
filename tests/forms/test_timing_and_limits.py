"""Start times and limits as they are typed."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone, translation

from viewer.launching.options import parse_start_time
from viewer.web.launch.options import LimitsForm, StartTimeForm, limit_texts


def test_an_empty_form_starts_now_without_limits() -> None:
    assert StartTimeForm({"start": "now", "start_at": ""}).at is None
    assert LimitsForm({}).limits == {}
    assert StartTimeForm().at is None and LimitsForm().limits == {}


def test_a_time_without_a_zone_is_in_the_zone_of_the_server() -> None:
    with timezone.override("Europe/Berlin"):
        assert parse_start_time("2150-07-01T14:30") == datetime(2150, 7, 1, 12, 30, tzinfo=UTC)
        assert parse_start_time("2150-07-01T14:30+00:00") == datetime(2150, 7, 1, 14, 30, tzinfo=UTC)


def test_a_time_skipped_by_daylight_saving_is_refused() -> None:
    with timezone.override("Europe/Berlin"):
        # The last Sunday in March.
        skipped = datetime(2035, 3, 25, 2, 30)
        with pytest.raises(ValueError, match="not a valid time"):
            parse_start_time(skipped.isoformat())


@pytest.mark.parametrize(
    "text", ["", "soon", "2020-01-01T10:00", "9999-12-31T23:59-23:00", "2150-13-01T00:00"]
)
def test_a_past_or_invalid_time_is_a_field_error(text: str) -> None:
    form = StartTimeForm({"start": "later", "start_at": text})
    assert form.at is None
    assert list(form.errors) == ["start_at"] and form["start_at"].id_for_label == "start-at"


def test_the_current_minute_is_not_past() -> None:
    now = timezone.localtime()
    assert parse_start_time(now.strftime("%Y-%m-%dT%H:%M")) <= now
    with pytest.raises(ValueError, match="has passed"):
        parse_start_time((now - timedelta(minutes=3)).strftime("%Y-%m-%dT%H:%M"))


def test_limits_are_numbers_and_times_are_in_minutes() -> None:
    form = LimitsForm({"limit_tokens": "20,000", "limit_minutes": "1.5", "limit_steps": " 3 "})
    assert form.limits == {"tokens": 20000, "seconds": 90, "steps": 3}
    shown = LimitsForm(initial=limit_texts(form.limits))
    assert [field.value() for field in shown] == ["20000", "1.5", "3"]
    assert limit_texts({"tokens": 2_500_000}) == {"limit_tokens": "2500000"}


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "inf", "1e3", "many", "9" * 20])
def test_an_invalid_limit_is_a_field_error(text: str) -> None:
    form = LimitsForm({"limit_steps": text})
    assert form.limits == {}
    assert list(form.errors) == ["limit_steps"] and form["limit_steps"].id_for_label == "limit-steps"


def test_the_summary_of_limits_names_their_units() -> None:
    assert LimitsForm({"limit_tokens": "20,000", "limit_minutes": "1.5", "limit_steps": "1"}).summary == (
        "20,000 tokens, 90 seconds, 1 step"
    )
    assert LimitsForm({"limit_steps": "many"}).summary == "many"
    assert LimitsForm({}).summary == "none"
    with translation.override("de"):
        form = LimitsForm({"limit_tokens": "20000", "limit_steps": "2"})
        assert form.summary == "20.000 Tokens, 2 Schritte"
