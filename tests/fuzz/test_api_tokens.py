"""``make fuzz`` sends many more tokens and keys."""

import random
from collections import Counter
from pathlib import Path

import pytest

from quality.fuzz.api_tokens import attack_key, attack_scope, attack_tokens, prepared


@pytest.mark.django_db(transaction=True)
def test_tokens_do_no_more_than_they_may(tmp_path: Path) -> None:
    checkpoints, chance, counts = prepared(tmp_path), random.Random(5), Counter[str]()
    assert attack_tokens(chance, counts, checkpoints[0].location, 20) == []
    assert [fault for _ in range(8) for fault in attack_scope(chance, counts, checkpoints)] == []
    assert counts["seen"] and counts["not seen"] and counts["altered"]
    assert attack_key(chance, counts, checkpoints[0], 8) == []
    assert counts["started"] == 1
