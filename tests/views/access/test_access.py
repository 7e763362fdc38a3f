"""Visitors who are not logged in see the login page and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from scripts.served_demo import CSRF_TOKEN
from viewer.models import Location, Run
from viewer.records.accounts import login_link, owner, teammate


def test_every_screen_requires_a_login(client: Client, crew_location: Location, crew_run: Run) -> None:
    checkpoint = crew_run.checkpoints.earliest("row")
    for address in (
        reverse("locations"),
        crew_location.get_absolute_url(),
        crew_run.get_absolute_url(),
        reverse("run-rows", args=[crew_run.uid]),
        reverse("checkpoint", args=[checkpoint.pk]),
        reverse("checkpoint-raw", args=[checkpoint.pk]),
    ):
        answer = client.get(address)
        assert (answer.status_code, answer["Location"].split("?")[0]) == (302, reverse("login")), address
    for address in (reverse("location-add"), reverse("location-refresh", args=[crew_location.uid])):
        assert client.post(address, {"path": "/"})["Location"].startswith(reverse("login"))


def test_a_login_redirects_to_the_requested_page(client: Client, db: None) -> None:
    User.objects.create_user("reader", password="reading")
    address = reverse("login") + "?next=/jobs/"
    assert "Log in to open this page." in client.get(address).content.decode()
    answer = client.post(address, {"username": "reader", "password": "reading", "next": "/jobs/"})
    assert (answer.status_code, answer["Location"]) == (302, "/jobs/")


def test_a_wrong_password_shows_an_error(client: Client, db: None) -> None:
    page = client.post(reverse("login"), {"username": "reader", "password": "x"}).content.decode()
    assert "Wrong name or password" in page


def test_a_used_login_link_shows_an_error(db: None) -> None:
    link = login_link(owner(), "/jobs/")
    first, second = Client(), Client()
    assert first.post(link)["Location"] == "/jobs/"
    assert second.post(link).status_code == 403
    answer = second.get(link)
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "was already used" in page and "manage.py login_link" in page
    # A user with a password can log in there instead.
    assert f'action="{reverse("login")}"' in page and 'name="next" value="/jobs/"' in page
    assert second.get(reverse("jobs")).status_code == 302


def test_a_login_link_is_used_by_its_button_only(db: None) -> None:
    link = login_link(teammate("ada"), "/jobs/")
    bot = Client(headers={"User-Agent": "Slackbot-LinkExpanding 1.0"})
    for method in (bot.get, bot.head, bot.options, bot.get):
        answer = method(link)
        assert not bot.cookies.get(settings.SESSION_COOKIE_NAME)
    page = answer.content.decode()
    assert answer.status_code == 200 and "<strong>ada</strong>" in page and '<form method="post">' in page
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(link).status_code == 403, "A page of another site cannot press the button."
    token = CSRF_TOKEN.search(browser.get(link).content.decode())
    assert token
    assert browser.post(link, {"csrfmiddlewaretoken": token[1]})["Location"] == "/jobs/"
    assert browser.get("/jobs/").status_code == 200


def test_simultaneous_uses_of_a_login_link_log_in_once(transactional_db: None) -> None:
    link = login_link(owner(), "/jobs/")

    def used(_: int) -> int:
        status = Client().post(link).status_code
        connection.close()
        return status

    with ThreadPoolExecutor(8) as people:
        assert sorted(people.map(used, range(8))) == [302] + [403] * 7


def test_a_used_login_link_redirects_a_logged_in_user(db: None) -> None:
    link = login_link(owner(), "/jobs/")
    browser = Client()
    for method in (browser.post, browser.post, browser.get):
        assert method(link)["Location"] == "/jobs/"
    elsewhere = link.replace("next=%2Fjobs%2F", "next=https%3A%2F%2Fevil.example%2F")
    assert browser.get(elsewhere)["Location"] == reverse("home")


def test_a_partial_request_redirects_the_whole_page_to_the_login(client: Client, crew_run: Run) -> None:
    part = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{crew_run.get_absolute_url()}?at=x"}
    answer = client.get(reverse("run-rows", args=[crew_run.uid]), headers=part)
    assert answer.content == b""
    assert answer["HX-Redirect"] == f"{reverse('login')}?next={crew_run.get_absolute_url()}%3Fat%3Dx"
    # A link that htmx follows is a whole page.
    link = {**part, "HX-Boosted": "true"}
    answer = client.get(f"{crew_run.get_absolute_url()}?at=y", headers=link)
    assert answer["HX-Redirect"].endswith(f"?next={crew_run.get_absolute_url()}%3Fat%3Dy")
    # A form keeps what was typed.
    answer = client.post(reverse("location-add"), headers=part)
    assert (answer.status_code, answer.content, "HX-Redirect" in answer) == (403, b"", False)


def test_a_form_sent_after_a_logout_redirects_back_to_its_page_after_login(client: Client, db: None) -> None:
    address = reverse("location-add")
    sent = client.post(address, headers={"Referer": "http://testserver/?page=2"})
    assert sent["Location"] == f"{reverse('login')}?next=/%3Fpage%3D2"
    for referer in ({}, {"Referer": "https://evil.example/jobs/"}):
        sent = client.post(address, headers=referer)
        assert sent["Location"] == f"{reverse('login')}?next={reverse('home')}"


def test_a_form_without_a_csrf_token_is_rejected(db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(teammate("reader"))
    answer = client.post(reverse("location-add"), {"path": "/"})
    assert answer.status_code == 403
    assert "The form was not submitted" in answer.content.decode()


@pytest.mark.parametrize("method", ["put", "delete", "patch"])
def test_pages_reject_other_methods(reader: Client, crew_run: Run, method: str) -> None:
    assert getattr(reader, method)(crew_run.get_absolute_url()).status_code == 405


@pytest.mark.parametrize(
    ("page", "after_login"),
    [
        ("http://HOST/jobs/?status=failed", "/jobs/?status=failed"),
        ("https://HOST/jobs/#top", "/jobs/"),
        ("http://HOST", "/"),
        ("http://evil.example/jobs/", "/"),
        ("http://HOST@evil.example/", "/"),
        ("http://[", "/"),
        ("http://[::1]x:y/", "/"),
        ("http://a\u2100b/", "/"),
        ("x", "/"),
    ],
)
def test_a_form_returns_to_its_page_after_the_login(
    client: Client, db: None, page: str, after_login: str
) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": page.replace("HOST", "127.0.0.1:8000")}
    answer = client.get(reverse("jobs"), headers=headers, HTTP_HOST="127.0.0.1:8000")
    assert parse_qs(urlsplit(answer["HX-Redirect"]).query)["next"] == [after_login]
