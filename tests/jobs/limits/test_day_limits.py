"""Daily limits are one row."""

import pytest
from django.db import IntegrityError, transaction

from viewer.models import DayLimits

pytestmark = pytest.mark.django_db


def test_a_change_replaces_the_limits() -> None:
    assert DayLimits.current() == {}
    DayLimits.change({"tokens": 100})
    DayLimits.change({"steps": 3})
    assert DayLimits.current() == {"steps": 3}
    assert DayLimits.objects.count() == 1


def test_the_database_refuses_a_second_row() -> None:
    DayLimits.change({"tokens": 100})
    for is_current in (True, False):
        with pytest.raises(IntegrityError), transaction.atomic():
            DayLimits.objects.create(is_current=is_current, limits={})
    assert DayLimits.current() == {"tokens": 100}
