"""``make fuzz`` delivers to many more addresses."""

import random
from collections import Counter
from pathlib import Path

import pytest

from quality.fuzz.webhooks import attack_addresses, attack_messages, attack_receivers, attack_signatures
from viewer.host import notifying


def test_no_private_address_is_reached_and_no_forged_delivery_accepted() -> None:
    counts, chance = Counter[str](), random.Random(4)
    assert attack_addresses(chance, counts, 200) == []
    assert attack_signatures(chance, counts, 60) == []
    assert counts["refused rebinding"] and counts["old"]


def test_deliveries_to_hostile_receivers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "MAX_SECONDS", 1)
    assert attack_receivers(Counter()) == []


@pytest.mark.django_db(transaction=True)
def test_messages_arrive_once_and_only_for_those_who_may_see_them(tmp_path: Path) -> None:
    counts = Counter[str]()
    assert attack_messages(counts, tmp_path, 6) == []
    assert counts["arrived"] == counts["lost the right"] == 3
