"""A store of hostile flow states is read as ``make fuzz`` reads many."""

import random
from collections import Counter
from pathlib import Path

from quality.fuzz.flow_states import try_store


def test_a_healthy_flow_is_read_among_hostile_ones(tmp_path: Path) -> None:
    counts = Counter[str]()
    assert try_store(tmp_path / "flow_states.db", random.Random(1), counts) == []
    assert counts["read"] > 5 and counts["waiting"] and counts["problems"]
