"""The lineage of a shared run in a frame: for the configured origins only, and without cookies."""

import re
from html import unescape

import pytest
from django.conf import LazySettings, settings
from django.test import Client
from django.urls import reverse

from checkpoint_site.environment import InvalidSetting, env_exact_origins
from tests.sharing.conftest import BROWSER, share
from viewer.models import Run, ShareLink
from viewer.records.accounts import teammate

ORIGINS = ["https://wiki.example.org", "http://localhost:7000"]
HREF = re.compile(r'<a\b[^>]*\bhref="([^"]*)"[^>]*>')


@pytest.fixture
def embedded(run_link: str, settings: LazySettings) -> str:
    """Return the address of the embedded view of a run."""
    settings.EMBED_ORIGINS = ORIGINS
    return f"{run_link}embed/"


def frame_ancestors(policy: str) -> str:
    return next(one for one in policy.split("; ") if one.startswith("frame-ancestors"))


def test_only_pages_of_the_configured_origins_may_frame_it(stranger: Client, embedded: str) -> None:
    answer = stranger.get(embedded)
    assert answer.status_code == 200 and "X-Frame-Options" not in answer
    assert frame_ancestors(answer["Content-Security-Policy"]) == f"frame-ancestors {' '.join(ORIGINS)}"


def test_without_origins_there_is_no_such_page(stranger: Client, run_link: str) -> None:
    answer = stranger.get(f"{run_link}embed/")
    assert answer.status_code == 404 and answer["X-Frame-Options"] == "DENY"
    assert frame_ancestors(answer["Content-Security-Policy"]) == "frame-ancestors 'none'"


def test_no_other_page_can_be_framed(stranger: Client, embedded: str, run_link: str, crew_run: Run) -> None:
    for address in (
        run_link,
        f"{run_link}rows/",
        "/shared/wrong/",
        "/",
        crew_run.get_absolute_url(),
        "/login/",
    ):
        answer = stranger.get(address)
        assert answer["X-Frame-Options"] == "DENY", address
        assert frame_ancestors(answer["Content-Security-Policy"]) == "frame-ancestors 'none'", address


def test_other_kinds_of_links_cannot_be_embedded(
    stranger: Client, embedded: str, checkpoint_link: str, comparison_link: str
) -> None:
    for address in (checkpoint_link, comparison_link):
        assert stranger.get(f"{address}embed/").status_code == 404


@pytest.mark.parametrize("change", ["revoked", "expired", "unshared"])
def test_it_ends_with_its_link(stranger: Client, embedded: str, change: str, settings: LazySettings) -> None:
    link = ShareLink.objects.get()
    if change == "revoked":
        link.revoke()
    elif change == "expired":
        ShareLink.objects.update(expires_at=link.created_at)
    else:
        settings.SHARING = False
    answer = stranger.get(embedded)
    page = answer.content.decode()
    assert answer.status_code == 404 and link.title not in page
    # The frame says so instead of staying empty, and leads nowhere.
    assert "This link does not work" in page and HREF.findall(page) == []
    assert "X-Frame-Options" not in answer


def test_it_reads_and_sets_no_cookie(embedded: str, stranger: Client) -> None:
    reader = Client(headers={"User-Agent": BROWSER})
    reader.force_login(teammate("maker", "run"))
    reader.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    plain, answer = stranger.get(embedded), reader.get(embedded)
    assert answer.content == plain.content and not answer.cookies and not plain.cookies
    assert not reader.get(embedded).wsgi_request.COOKIES
    assert ShareLink.objects.get().views == 0


def test_it_has_no_forms_and_its_links_open_in_a_new_tab(
    stranger: Client, embedded: str, crew_run: Run
) -> None:
    page = stranger.get(embedded).content.decode()
    assert "<form" not in page and "<button" not in page and crew_run.location.path not in page
    links = re.findall(r"<a\b[^>]*>", page)
    assert len(links) > crew_run.checkpoints.count() > 0
    assert all('target="_blank"' in one and 'rel="noopener"' in one for one in links)
    shared = embedded.removesuffix("embed/")
    for target in {unescape(one) for one in HREF.findall(page)}:
        assert re.fullmatch(r"\.\./(\?.*)?", target), target
        assert stranger.get(shared + target.removeprefix("../")).status_code == 200


def test_a_query_changes_nothing(stranger: Client, embedded: str) -> None:
    plain = stranger.get(embedded).content
    assert stranger.get(f"{embedded}?at=x&only=failed&branch=none&from=1&pruned=shown").content.replace(
        b"pruned=shown", b""
    ) == plain.replace(b"pruned=shown", b"")


def test_a_program_gets_no_content(embedded: str, crew_run: Run) -> None:
    answer = Client(headers={"User-Agent": "Slackbot 1.0"}).get(embedded)
    assert answer.status_code == 200 and str(crew_run) not in answer.content.decode()


def test_the_code_to_paste_is_shown_with_a_new_link(
    runner: Client, crew_run: Run, settings: LazySettings
) -> None:
    asked = f"{reverse('share')}?kind=run&target={crew_run.uid}"
    assert "iframe" not in runner.post(asked, {"days": "1"}).content.decode()
    settings.EMBED_ORIGINS = ORIGINS
    crew_run.name = '"><script>'
    crew_run.save()
    page = runner.post(asked, {"days": "1"}).content.decode()
    (code,) = re.findall(r'id="share-frame"[^>]*>([^<]*)<', page)
    (address,) = re.findall(r'src="http://testserver(/shared/[^/]+/embed/)"', unescape(code))
    assert runner.get(address, headers={"User-Agent": BROWSER}).status_code == 200
    assert "<script>" not in unescape(code) and ORIGINS[0] in page
    start = crew_run.checkpoints.earliest("row").checkpoint_id
    asked = f"{reverse('share')}?kind=checkpoint&target={crew_run.uid}/{start}"
    assert "iframe" not in runner.post(asked, {"days": "1"}).content.decode()


@pytest.mark.parametrize(
    "value",
    [
        "*",
        "https://*.example.org",
        "wiki.example.org",
        "https://wiki.example.org/",
        "https://wiki.example.org;script-src *",
        "https://wiki.example.org 'self'",
        "https://user@wiki.example.org",
        "https://wiki.example.org:0",
        "javascript://x",
        "null",
        "https://a.example,",
    ],
)
def test_only_exact_origins_are_accepted(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("EMBED_ORIGINS", value)
    with pytest.raises(InvalidSetting):
        env_exact_origins("EMBED_ORIGINS", "")
    monkeypatch.setenv("EMBED_ORIGINS", ",".join([*ORIGINS, "http://[::1]:9000"]))
    assert env_exact_origins("EMBED_ORIGINS", "")[:2] == ORIGINS


def test_a_shared_run_of_another_link_stays_hidden(stranger: Client, embedded: str, crew_run: Run) -> None:
    other = Run.objects.create(location=crew_run.location, key="other", entity="crew", name="other run")
    assert "other run" not in stranger.get(embedded).content.decode()
    assert share("run", str(other.uid)) != embedded
