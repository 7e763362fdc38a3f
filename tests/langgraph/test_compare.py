"""Comparisons of threads."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from tests.langgraph.conftest import opened
from viewer.engines.contents import Section
from viewer.models import Location
from viewer.presentation.comparison import table_of
from viewer.presentation.comparison_references import Reference, reference_to
from viewer.presentation.comparison_sides import compared


def test_the_steps_of_a_thread_are_compared_by_node_and_message(threads: Callable[[str], Location]) -> None:
    location = threads("lg12")
    for run in location.runs.filter(parent=None):
        opened(location, run.key)
        rows = list(run.checkpoints.order_by("row"))
        found = compared([str(reference_to(rows[0])), str(Reference(run.uid))])
        assert not any(side.problem for side in found.sides)
        sections = {key[0] for key in found.sides[-1].parts}
        assert sections & {Section.STATE, Section.MESSAGES}, run.key
        groups = table_of(found.sides, shows_same=True)
        assert all(len(row.cells) == len(found.sides) for group in groups for row in group.rows)


@pytest.mark.parametrize("version", ["lg02_76", "lg06"])
def test_threads_of_any_version_are_compared(
    reader: Client, threads: Callable[[str], Location], version: str
) -> None:
    runs = threads(version).runs.filter(parent=None)[:2]
    query = {"a": str(runs[0].uid), "b": str(runs[1].uid)}
    html = reader.get(reverse("compare"), query).content.decode()
    assert "compare-table" in html and "cannot be read" not in html
