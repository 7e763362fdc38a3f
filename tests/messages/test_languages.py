"""The languages that users can choose, and the one in which a page is written."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils.translation import gettext, override, pgettext
from pytest_django import Settings

from checkpoint_site import languages
from checkpoint_site import settings as site
from checkpoint_site.languages import COMPLETE, NAMES
from scripts.catalogues.files import PLURALS
from tests.messages.catalogue import write_catalogue

ARABIC = {"Settings": "الإعدادات", "Saved.": "تم الحفظ."}


@pytest.fixture
def arabic(tmp_path: Path, settings: Settings) -> None:
    settings.LOCALE_PATHS = [write_catalogue(tmp_path, "ar", ARABIC)]
    settings.LANGUAGES = [("en", "English"), ("ar", "العربية")]


def test_a_language_without_a_catalogue_is_not_announced(runner: Client, settings: Settings) -> None:
    settings.LANGUAGES = site.LANGUAGES
    answer = runner.get("/", headers={"Accept-Language": "nl"})
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


def test_every_catalogue_is_complete_and_named() -> None:
    assert set(COMPLETE) == set(PLURALS) == set(NAMES)
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize(("code", "name"), site.LANGUAGES)
def test_a_page_in_each_language_is_translated_and_names_it(
    runner: Client, settings: Settings, code: str, name: str
) -> None:
    settings.LANGUAGES = site.LANGUAGES
    page = runner.get("/settings/", headers={"Accept-Language": code}).content.decode()
    assert f'<html lang="{code}" dir="{"rtl" if code == "ar" else "ltr"}"' in page and name in page
    assert ("<h1>Settings</h1>" in page) == (code == "en")


@pytest.mark.parametrize(
    ("announced", "code"),
    [
        ("de-AT", "de"),
        ("es-MX", "es"),
        ("fr-CA", "fr"),
        ("ja-JP", "ja"),
        ("zh-CN", "zh-hans"),
        ("zh", "zh-hans"),
    ],
)
def test_a_browser_with_a_variant_of_a_language_gets_the_language(
    runner: Client, settings: Settings, announced: str, code: str
) -> None:
    settings.LANGUAGES = site.LANGUAGES
    assert runner.get("/", headers={"Accept-Language": announced})["Content-Language"] == code


def test_buttons_and_pages_of_lists_have_texts_of_their_own() -> None:
    with override("de"):
        assert (gettext("Answer"), pgettext("on a button", "Answer")) == ("Antwort", "Antworten")
        assert (gettext("Next"), pgettext("page of a list", "Next")) == ("Als Nächstes", "Weiter")
        assert pgettext("a key", "Ctrl") == "Strg"
