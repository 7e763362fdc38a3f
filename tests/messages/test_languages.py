"""A page names only a language that it is written in."""

from django.test import Client
from pytest_django import Settings

from checkpoint_site import settings as site


def test_a_language_without_a_catalogue_is_not_announced(reader: Client, settings: Settings) -> None:
    settings.LANGUAGES = site.LANGUAGES
    answer = reader.get("/", headers={"Accept-Language": "de"})
    assert answer["Content-Language"] == "en" and '<html lang="en"' in answer.content.decode()
