"""Search at the terminal."""

import json
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from viewer.cli.commands import runs
from viewer.models import Host, Location


@pytest.fixture(autouse=True)
def time_to_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a search index everything, which takes a busy machine longer than a person would wait."""
    monkeypatch.setattr(runs, "INDEXING_SECONDS", 60.0)


def printed(*arguments: str) -> str:
    output = StringIO()
    call_command("checkpoints", "search", *arguments, stdout=output)
    return output.getvalue()


def document(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(*arguments, "--json"))
    return found


def test_a_search_indexes_what_is_new_and_marks_its_matches(crew_location: Location) -> None:
    lines = printed("expert", "--kind", "prompt")
    assert "[Expert]" in lines and f"{crew_location.path}#" in lines
    assert "not indexed" not in lines


def test_the_document_names_checkpoints_and_addresses(crew_location: Location) -> None:
    found = document("expert", "--kind", "prompt", "--limit", "1")
    (one,) = found["results"]
    assert found["is_fully_indexed"] and found["count"] >= 1
    assert one["location"] == crew_location.path and one["kind"] == "prompt"
    assert one["address"].endswith("tab=overview") and "Expert" in one["excerpt"]


def test_options_filter(crew_location: Location) -> None:
    assert document("--entity", "crew")["count"] == 6
    assert document("--location", crew_location.path, "--since", "2020-01-01")["count"] == 6
    assert document("--engine-version", "0.0")["results"] == []
    assert document("write", "--without", "write")["results"] == []
    assert "Nothing found." in printed("no such text")


def test_a_location_is_named_as_for_other_commands(
    crew_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(crew_location.path)
    other = Host.objects.create(name="beta")
    twin = Location.objects.create(path="/srv/other", store_kind="json", host=other)
    monkeypatch.chdir(path.parent)
    for name in (str(path), path.name, f"./{path.name}/", f"file://{path}", str(crew_location.uid)):
        assert document("write", "--location", name)["count"], name
    for name in ("beta:/srv/other", "/srv/other", str(twin.uid)):
        assert document("write", "--location", name)["count"] == 0, name
    for name in ("beta:/srv/nothing", "/srv/nothing", str(uuid4())):
        with pytest.raises(CommandError, match="no location"):
            document("write", "--location", name)


@pytest.mark.parametrize(
    ("option", "value"), [("--since", "yesterday"), ("--cost", "nan"), ("--tokens", "-1"), ("--limit", "0")]
)
def test_a_filter_that_is_not_valid_is_refused(crew_location: Location, option: str, value: str) -> None:
    with pytest.raises(CommandError, match=f"{option} must be .*, not '{value}'"):
        printed("write", option, value)


def test_a_search_needs_something_to_search_for(db: None) -> None:
    with pytest.raises(CommandError, match="Name a word"):
        printed()
    with pytest.raises(CommandError, match="no location /nowhere"):
        printed("tea", "--location", "/nowhere")
