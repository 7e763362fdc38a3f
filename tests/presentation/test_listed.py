"""A page says if it does not list every checkpoint of a run."""

from pathlib import Path

import pytest

from viewer.models import Location, Run
from viewer.presentation.run.window import listing_texts


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("own", "called", "is_cut"), [(19_999, 0, False), (20_000, 0, True), (15_000, 5_000, True)]
)
def test_a_thread_with_more_checkpoints_than_are_listed_shows_a_notice(
    tmp_path: Path, own: int, called: int, is_cut: bool
) -> None:
    location = Location.objects.create(path=str(tmp_path / "t.db"), store_kind="sqlite", engine="langgraph")
    run = Run.objects.create(location=location, key="long", entity="graph", checkpoint_count=own)
    Run.objects.create(location=location, key="inner", entity="graph", parent=run, checkpoint_count=called)
    assert ("20,000" in " ".join(listing_texts(run))) is is_cut
