"""What a thread used, from the messages of its newest checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from tests.imported import imported_location
from tests.langgraph.databases import Database, extension, packed
from viewer.host.locations.completing import describe_runs
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.models import Run

pytestmark = pytest.mark.django_db
PYDANTIC_2 = 5


def answer(name: str, tokens_in: int, tokens_out: int, model: str = "gpt-4o-mini") -> Any:
    """A message of a model, as LangGraph encodes it."""
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    fields = {
        "id": name,
        "type": "ai",
        "content": "…",
        "usage_metadata": usage,
        "response_metadata": {"model_name": model},
    }
    return extension(PYDANTIC_2, "langchain_core.messages.ai", "AIMessage", fields, "model_validate_json")


@pytest.fixture
def thread(tmp_path: Path) -> Run:
    """A thread of two branches, which have one answer in common."""
    (tmp_path / "store").mkdir()
    database = Database(tmp_path / "store" / "threads.db")
    parent = database.add(0, packed({"messages": []}), metadata=b'{"source": "input", "step": -1}')
    fork = database.add(1, packed({"messages": [answer("a", 10, 5)]}))
    database.add(2, packed({"messages": [answer("a", 10, 5), answer("b", 20, 5)]}))
    database.add(
        3, packed({"messages": [answer("a", 10, 5), answer("c", 30, 5, "x")]}), parent_checkpoint_id=fork
    )
    assert parent
    location = imported_location(database.path)
    return location.runs.get()


def test_the_list_counts_what_the_newest_checkpoint_records(thread: Run) -> None:
    assert (thread.tokens_in, thread.tokens_out, thread.model) == (40, 10, "x, gpt-4o-mini")
    assert thread.cost is not None and thread.unpriced_calls == 1


def test_opening_a_thread_counts_all_branches_and_shared_answers_once(thread: Run) -> None:
    import_run(thread)
    describe_runs(thread.location)
    thread.refresh_from_db()
    assert (thread.tokens, thread.tokens_in, thread.tokens_out) == (75, 60, 15)
    assert thread.cost == pytest.approx(30 * 0.15e-6 + 10 * 0.6e-6)


def test_the_time_before_a_fork_is_not_counted(thread: Run) -> None:
    import_run(thread)
    thread.refresh_from_db()
    ids = thread.checkpoints.order_by("checkpoint_id").values_list("created_at", flat=True)
    first, _fork, last, _other = (at.timestamp() for at in ids if at)
    assert thread.seconds == pytest.approx(last - first, abs=0.01)


def test_a_later_import_of_the_list_keeps_what_is_known_of_all_branches(thread: Run) -> None:
    import_run(thread)
    Run.objects.update(described_head="")
    import_location(thread.location)
    thread.refresh_from_db()
    assert thread.tokens == 75
