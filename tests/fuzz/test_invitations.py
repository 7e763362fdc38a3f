"""``make fuzz`` accepts many more invitations."""

import random
from collections import Counter
from pathlib import Path

import pytest

from quality.fuzz.invitations import ENDS, ended, forged, race
from quality.temporary_data_folder import made_location


@pytest.mark.django_db(transaction=True)
def test_an_invitation_gives_what_it_says_once(tmp_path: Path) -> None:
    location, chance, counts = made_location(tmp_path), random.Random(7), Counter[str]()
    assert [fault for _ in range(3) for fault in race(chance, counts, location, 6)] == []
    assert counts["joined"] + counts["revoked first"] == 3
    assert forged(chance, counts, location, 20) == []
    assert [fault for change in ENDS for fault in ended(counts, location, change)] == []
