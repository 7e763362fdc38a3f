"""A check notices when a page has changed since its picture was taken."""

import json
from pathlib import Path

import pytest

from scripts.pictures import outdated

ROOT = Path(__file__).resolve().parents[2]


def test_every_picture_names_sources_that_exist() -> None:
    folders = {path.name for path in outdated.PICTURES.iterdir() if path.is_dir()}
    assert folders == set(outdated.SOURCES)
    sources = [source for named in outdated.SOURCES.values() for source in (*outdated.COMMON, *named)]
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_a_changed_page_makes_its_picture_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "templates/search/page.html"
    for source in {source for named in outdated.SOURCES.values() for source in (*outdated.COMMON, *named)}:
        path = tmp_path / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source) if path.suffix else path.mkdir(exist_ok=True)
    page.write_text("before")
    monkeypatch.setattr(outdated, "ROOT", tmp_path)
    monkeypatch.setattr(outdated, "RECORDED", tmp_path / "sources.json")
    outdated.record_sources(outdated.SOURCES)
    assert outdated.outdated() == []
    assert json.loads(outdated.RECORDED.read_text()).keys() == outdated.SOURCES.keys()
    page.write_text("after")
    assert outdated.outdated() == ["search"]
    outdated.record_sources(["fork"])
    assert outdated.outdated() == ["search"]
    outdated.record_sources(["search"])
    assert outdated.outdated() == []
