"""Scripts write numbers and times as the server does, in every language."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.utils import translation
from playwright.sync_api import Browser
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from checkpoint_site.settings import LANGUAGES
from viewer.formats import count_text, moment_text

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CODES = [code for code, _name in LANGUAGES]
AT = datetime(2026, 5, 31, 14, 5, tzinfo=UTC)
TIMES = Path(__file__).resolve().parents[2] / "static/js/times.js"
COUNTED = """async (language) => {
  document.documentElement.lang = language;
  const { counted } = await import("/static/js/counts.js");
  const element = document.createElement("p");
  element.dataset.counts = JSON.stringify({ 1: "%(count)s", 2: "%(count)s", 100: "%(count)s" });
  return counted(element, 2001);
}"""
SHOWN = """async ([at, format]) => {
  const time = document.createElement("time");
  time.dateTime = at;
  time.dataset.time = format;
  document.documentElement.append(time);
  while (!("shown" in time.dataset)) await new Promise(requestAnimationFrame);
  return time.textContent;
}"""


@pytest.fixture(autouse=True)
def _all_languages(settings: Settings) -> None:
    settings.LANGUAGES = LANGUAGES


def test_counts_have_the_separators_of_the_server(browser: Browser, live_server: LiveServer) -> None:
    page = browser.new_page()
    page.goto(f"{live_server.url}/static/js/counts.js")
    for code in CODES:
        with translation.override(code):
            # French has a narrow space in one, and an ordinary one in the other.
            assert page.evaluate(COUNTED, code).split() == count_text(2001).split(), code
    page.close()


@pytest.mark.parametrize("code", ["en", "es", "ja", "ko", "zh-hans"])
def test_times_are_those_of_the_server(browser: Browser, live_server: LiveServer, code: str) -> None:
    for clock, shown in (
        ("24", {"14:05"}),
        ("12", {"2:05 pm", "2:05 p. m.", "午後2:05", "오후 2:05", "下午2:05"}),
    ):
        page = browser.new_page()
        page.goto(f"{live_server.url}/static/js/counts.js")
        page.evaluate(
            "([lang, clock]) => {"
            "document.documentElement.lang = lang;"
            "Object.assign(document.documentElement.dataset, { clock, times: 'utc' }); }",
            [code, clock],
        )
        page.add_script_tag(path=TIMES)
        assert (
            page.evaluate(SHOWN, [AT.isoformat(), "time"]).replace("\u202f", " ").replace("\xa0", " ")
            in shown
        )
        if clock == "24":
            with translation.override(code):
                assert page.evaluate(SHOWN, [AT.isoformat(), "day_and_time"]) == moment_text(
                    AT, "day_and_time"
                )
        page.close()
