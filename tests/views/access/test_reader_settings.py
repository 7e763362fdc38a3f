"""Each user's own settings."""

from django.test import Client
from django.urls import reverse

from viewer.models import ReaderSettings


def test_the_theme_decides_which_style_sheet_a_page_links(reader: Client) -> None:
    def page() -> str:
        return reader.get(reverse("settings")).content.decode()

    assert 'media="screen and (prefers-color-scheme: dark)"' in page() and "Logged in as reader" in page()
    reader.post(reverse("settings-save"), {"theme": "dark", "notifies": "1"})
    assert 'media="screen"' in page() and "data-notifies" in page()
    reader.post(reverse("settings-save"), {"theme": "light"})
    assert "css/design/dark.css" not in page() and "data-notifies" not in page()


def test_an_unknown_theme_is_that_of_the_system(reader: Client) -> None:
    reader.post(reverse("settings-save"), {"theme": "<b>"})
    assert ReaderSettings.objects.get().theme == "system"
