"""The table in docs/architecture.md leads from texts of the pages to existing code."""

import re
from pathlib import Path

import pytest
from django.utils.module_loading import import_string

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([^|`]+) \| `([^`]+\.html)` \| `([^`]+)` \| `([^`]+)` \|$", re.M)
ROWS = ROW.findall((ROOT / "docs/architecture.md").read_text())


def test_the_table_has_ten_texts() -> None:
    assert len({text for text, *_ in ROWS}) == 10


@pytest.mark.parametrize(("text", "template", "view", "function"), ROWS)
def test_a_text_leads_to_its_template_view_and_function(
    text: str, template: str, view: str, function: str
) -> None:
    assert text in (ROOT / "templates" / template).read_text()
    assert callable(import_string(f"viewer.views.{view}"))
    # Routes name only the module of a view.
    assert f"{'.'.join(view.split('.')[-2:])}," in (ROOT / "viewer/urls.py").read_text()
    assert callable(import_string(f"viewer.{function}"))
