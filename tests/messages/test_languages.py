"""A page names the language that it is written in: the browser's, or the one that its reader has chosen."""

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from checkpoint_site import languages
from checkpoint_site import settings as site
from tests.messages.catalogue import write_catalogue

ARABIC = {"Settings": "الإعدادات", "Saved.": "تم الحفظ."}


@pytest.fixture
def arabic(tmp_path: Path, settings: Settings) -> None:
    settings.LOCALE_PATHS = [write_catalogue(tmp_path, "ar", ARABIC)]
    settings.LANGUAGES = [("en", "English"), ("ar", "العربية")]


def test_a_language_without_a_catalogue_is_not_announced(runner: Client, settings: Settings) -> None:
    settings.LANGUAGES = site.LANGUAGES
    answer = runner.get("/", headers={"Accept-Language": "de"})
    assert answer["Content-Language"] == "en" and '<html lang="en" dir="ltr"' in answer.content.decode()


def test_only_complete_and_compiled_languages_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(languages, "COMPLETE", ("ar", "pt_BR"))
    (tmp_path / "pt_BR/LC_MESSAGES").mkdir(parents=True)
    (tmp_path / "pt_BR/LC_MESSAGES/django.mo").touch()
    assert languages.languages_in(tmp_path) == [("en", "English"), ("pt-br", "Português (Brasil)")]


@pytest.mark.usefixtures("arabic")
def test_the_chosen_language_wins_over_the_browsers(runner: Client) -> None:
    page = runner.post("/settings/save/", {"language": "ar"}, follow=True).content.decode()
    assert '<html lang="ar" dir="rtl"' in page and "تم الحفظ." in page
    page = runner.get("/settings/", headers={"Accept-Language": "en"}).content.decode()
    assert "<h1>الإعدادات</h1>" in page


@pytest.mark.usefixtures("arabic")
def test_without_a_choice_the_browser_decides(runner: Client) -> None:
    page = runner.get("/settings/", headers={"Accept-Language": "ar-EG"}).content.decode()
    assert '<html lang="ar" dir="rtl"' in page
    page = runner.post("/settings/save/", {"language": "xx"}, follow=True).content.decode()
    assert '<html lang="en" dir="ltr"' in page
