"""The notice that an administrator shows on every page."""

from pathlib import Path

from django.test import Client
from pytest_django import Settings


def test_every_page_shows_the_first_line_of_the_file(
    reader: Client, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "notice.txt"
    settings.NOTICE_FILE = str(file)
    assert 'id="site-notice"' in reader.get("/jobs/").content.decode()
    file.write_bytes("Maintenance at <b>6\x1b[2J</b>, caf\u00e9\nsecond".encode() + b"\xff")
    page = reader.get("/jobs/").content.decode()
    assert "Maintenance at &lt;b&gt;6[2J&lt;/b&gt;, caf\u00e9" in page and "second" not in page
    assert "Maintenance" in reader.get("/notice/").content.decode()
    file.unlink()
    assert "Maintenance" not in reader.get("/notice/").content.decode()
    file.mkdir()
    assert reader.get("/notice/").status_code == 200


def test_without_the_setting_no_page_asks_for_it(reader: Client) -> None:
    assert "site-notice" not in reader.get("/jobs/").content.decode()
