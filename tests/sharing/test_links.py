"""A share link works for its object until it expires, is revoked, or its maker may no longer share."""

import io
import logging
import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from checkpoint_site.logs import JsonFormatter, PlainFormatter
from checkpoint_site.middleware import throttle
from tests.sharing.conftest import BROWSER, share, token_of
from viewer.models import Job, Location, Run, ShareLink
from viewer.presentation.share_links import picture_source
from viewer.records.accounts import teammate
from viewer.records.lineage.graphs import Chain, draw_picture

DEAD = "This link does not work"


def works(address: str) -> bool:
    answer = Client(headers={"User-Agent": BROWSER}).get(address)
    assert (answer.status_code == 404) == (DEAD in answer.content.decode()), answer.status_code
    return answer.status_code == 200


def test_a_link_shows_its_run_to_somebody_without_a_login(
    run_link: str, crew_run: Run, stranger: Client
) -> None:
    answer = stranger.get(run_link)
    page = answer.content.decode()
    assert answer.status_code == 200 and str(crew_run) in page
    assert all(row.trigger and f'id="c{row.pk}"' in page for row in crew_run.checkpoints.all())
    assert answer["Referrer-Policy"] == "no-referrer" and "noindex" in answer["X-Robots-Tag"]
    assert answer["Cache-Control"] == "no-store" and answer["X-Frame-Options"] == "DENY"


def test_only_a_hash_of_the_token_is_stored(run_link: str) -> None:
    link = ShareLink.objects.get()
    stored = " ".join(str(value) for value in vars(link).values())
    assert token_of(run_link) not in stored and len(link.token_hash) == 64
    assert not works(run_link.replace(token_of(run_link), link.token_hash))


def test_a_search_in_a_path_never_shows_a_location_that_was_added_later(crew_run: Run) -> None:
    path = crew_run.location.path
    link = share("search", urlencode({"location": path}))
    part = share("search", urlencode({"location": path[:-1]}))
    by_uid = share("search", urlencode({"location": crew_run.location.uid}))
    assert works(link) and works(part) and works(by_uid)
    Location.objects.create(path=f"{path}-secret")
    assert works(link) and works(by_uid) and not works(part)
    crew_run.location.delete()
    assert not works(link)


def test_a_link_expires_after_a_week(run_link: str) -> None:
    link = ShareLink.objects.get()
    assert link.expires_at - link.created_at == timedelta(days=7)
    ShareLink.objects.update(expires_at=timezone.now())
    assert not works(run_link)


def test_a_revoked_link_looks_like_one_that_never_existed(run_link: str, stranger: Client) -> None:
    assert works(run_link)
    ShareLink.objects.get().revoke()
    unknown = stranger.get(run_link[:-3] + "xx/")
    revoked = stranger.get(run_link)
    assert (revoked.status_code, revoked.content) == (unknown.status_code, unknown.content)
    assert DEAD in revoked.content.decode()


@pytest.mark.parametrize("change", ["deactivated", "deleted", "read-only"])
def test_a_link_ends_with_the_right_of_its_maker(run_link: str, change: str) -> None:
    maker = User.objects.get(username="maker")
    if change == "deactivated":
        User.objects.filter(pk=maker.pk).update(is_active=False)
    elif change == "deleted":
        maker.delete()
    else:
        teammate("maker", "view")
    assert not works(run_link)


def test_a_link_ends_with_its_object_and_does_not_revive(run_link: str, crew_location: Location) -> None:
    uid = Run.objects.get().uid
    crew_location.delete()
    assert not works(run_link)
    again = Location.objects.create(path=crew_location.path, store_kind="json")
    Run.objects.create(location=again, key=str(uid), uid=uid, entity="crew", name="article")
    assert not works(run_link)


def test_the_setting_turns_all_links_off(run_link: str, runner: Client, settings: Settings) -> None:
    run = Run.objects.get()
    assert "/shares/new/" in runner.get(run.get_absolute_url()).content.decode()
    settings.SHARING = False
    assert not works(run_link)
    assert "/shares/new/" not in runner.get(run.get_absolute_url()).content.decode()
    assert runner.get(f"/shares/new/?kind=run&target={run.uid}").status_code == 403
    assert runner.post(f"/shares/new/?kind=run&target={run.uid}", {"days": "7"}).status_code == 403


def test_each_browser_session_is_one_view(run_link: str) -> None:
    def views() -> int:
        return ShareLink.objects.get().views

    visitor = Client(headers={"User-Agent": BROWSER})
    visitor.get(run_link)
    visitor.get(f"{run_link}?tab=events")
    visitor.get(f"{run_link}rows/")
    assert views() == 1
    Client(headers={"User-Agent": BROWSER}).get(run_link)
    assert views() == 2


def test_previews_prefetches_and_headers_are_no_views(run_link: str, crew_run: Run) -> None:
    for agent in (
        "Slackbot-LinkExpanding 1.0",
        "facebookexternalhit/1.1",
        "curl/8.5.0",
        "Twitterbot/1.0",
        "",
    ):
        page = Client(headers={"User-Agent": agent}).get(run_link).content.decode()
        assert str(crew_run) not in page and "<body></body>" in page.replace("\n", ""), agent
    Client(headers={"User-Agent": BROWSER, "Sec-Purpose": "prefetch"}).get(run_link)
    Client(headers={"User-Agent": BROWSER, "HX-Request": "true"}).get(run_link)
    Client(headers={"User-Agent": BROWSER}).head(run_link)
    maker = Client(headers={"User-Agent": BROWSER})
    maker.force_login(User.objects.get(username="maker"))
    maker.get(run_link)
    assert ShareLink.objects.get().views == 0


def test_chats_show_a_title_only_by_choice(crew_run: Run, stranger: Client) -> None:
    for unfurls in (False, True):
        address = share("run", str(crew_run.uid), unfurls=unfurls)
        for agent in (BROWSER, "Slackbot-LinkExpanding 1.0"):
            page = stranger.get(address, headers={"User-Agent": agent}).content.decode()
            assert ("og:title" in page) == unfurls
            assert (f"<title>{crew_run} · Forkline</title>" in page) == unfurls


def test_guesses_are_limited_and_links_that_work_are_not(run_link: str) -> None:
    visitor = Client(REMOTE_ADDR="203.0.113.9", headers={"User-Agent": BROWSER})
    attempts = throttle.BUDGETS["share"].amount
    assert {visitor.get(run_link).status_code for _ in range(attempts + 1)} == {200}
    guesses = [visitor.get(f"/shared/guess-{number}/").status_code for number in range(attempts + 10)]
    assert guesses.count(404) == attempts and guesses[-1] == 429
    assert visitor.get(run_link).status_code == 200
    elsewhere = Client(REMOTE_ADDR="203.0.113.10", headers={"User-Agent": BROWSER})
    assert elsewhere.get("/shared/guess/").status_code == 404


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_logs_do_not_name_the_token(
    run_link: str, stranger: Client, formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    loggers = [logging.getLogger(name) for name in ("forkline.requests", "django.request", "uvicorn.error")]
    for logger in loggers:
        monkeypatch.setattr(logger, "handlers", [handler])
        monkeypatch.setattr(logger, "level", logging.INFO)
        logger.manager._clear_cache()  # type: ignore[attr-defined]
    stranger.get(run_link)
    stranger.post(run_link)
    ShareLink.objects.get().revoke()
    stranger.get(run_link)
    loggers[-1].info('%s - "WebSocket %s" [accepted]', "client", f"/ws{run_link}")
    monkeypatch.undo()
    assert written.getvalue().count("/shared/[token]") >= 4
    assert token_of(run_link) not in written.getvalue()


def test_a_link_to_a_removed_job_does_not_work(location: Location, stranger: Client) -> None:
    job = Job.objects.create(kind=Job.Kind.RUN, location=location, project=location.project)
    address = share("job", str(job.pk))
    job.delete()
    assert not works(address)


def test_a_picture_of_the_lineage_is_shown_only_by_choice(crew_run: Run, stranger: Client) -> None:
    plain, unfurling = (share("run", str(crew_run.uid), unfurls=unfurls) for unfurls in (False, True))
    assert stranger.get(f"{plain}picture.png").status_code == 404
    page = stranger.get(unfurling, headers={"User-Agent": "Slackbot-LinkExpanding 1.0"}).content.decode()
    assert f'<meta property="og:image" content="http://testserver{unfurling}picture.png">' in page
    picture = stranger.get(f"{unfurling}picture.png")
    assert picture["Content-Type"] == "image/png" and picture.content.startswith(b"\x89PNG")
    assert (
        stranger.get(share("checkpoint", _first(crew_run), unfurls=True) + "picture.png").status_code == 404
    )
    ShareLink.objects.update(revoked_at=timezone.now())
    assert stranger.get(f"{unfurling}picture.png").status_code == 404


def _first(run: Run) -> str:
    return f"{run.uid}/{run.checkpoints.earliest('row').checkpoint_id}"


def test_a_picture_names_branches_only_and_as_text() -> None:
    hostile = '<b>x</b>"];n9[label="y" image="/etc/passwd"];\\N\u202e' + "z" * 100
    source = picture_source([Chain(1, "main", "root", None, 3), Chain(2, hostile, "recorded", 0)])
    assert draw_picture(source, 10).startswith(b"\x89PNG")
    assert "image=" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", source)
