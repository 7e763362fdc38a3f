"""``make fuzz`` races many more starts, on both databases."""

import random
from collections import Counter
from pathlib import Path

import pytest

from quality.fuzz.quotas import race
from quality.temporary_data_folder import made_location


@pytest.mark.django_db(transaction=True)
def test_starts_and_claims_at_once_never_exceed_a_quota(tmp_path: Path) -> None:
    counts = Counter[str]()
    assert race(random.Random(23), counts, made_location(tmp_path), 12) == []
    assert counts["accepted"] and counts["refused"] and counts["claimed"] and counts["waiting"]
