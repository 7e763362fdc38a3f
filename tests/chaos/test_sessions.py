"""``make chaos`` ends many more sessions, some of them by a command."""

import random
from pathlib import Path

import pytest

from quality.chaos import sessions


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [1, 5])
async def test_nothing_follows_a_change_of_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(sessions, "ROUNDS", 2)
    monkeypatch.setattr(sessions, "SOCKETS_EACH", 1)
    # A busy machine takes longer, and make chaos measures it.
    monkeypatch.setattr(sessions, "SECONDS", 20.0)
    random.seed(seed)
    found = await sessions.tried(tmp_path)
    assert found.holds, found
    assert found.requests
