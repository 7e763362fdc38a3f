"""Forkline behind a proxy that terminates TLS and forwards requests to this machine."""

import http.client
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from scripts.served_demo import CSRF_TOKEN, free_port
from tests.environments import environment_with
from tests.jobs.conftest import ROOT

SITE = "https://forkline.example.org"


class Proxy:
    """Sends requests as a proxy forwards them for one browser, with cookies."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookies = SimpleCookie()

    def send(self, method: str, address: str, origin: str = "", **fields: str) -> tuple[int, str, str]:
        """Return the status, the redirect and the body of the response. ``headers`` are its headers."""
        headers = {"Host": "forkline.example.org", "X-Forwarded-Proto": "https"}
        headers["Cookie"] = "; ".join(f"{name}={one.value}" for name, one in self.cookies.items())
        if fields:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, address, urlencode(fields) if fields else None, headers)
        answer = connection.getresponse()
        for line in answer.headers.get_all("Set-Cookie") or []:
            self.cookies.load(line)
        self.headers = dict(answer.headers)
        page = answer.read().decode()
        connection.close()
        return answer.status, answer.headers["Location"] or "", page


class Served(NamedTuple):
    folder: Path
    port: int
    link: str
    environment: dict[str, str]


@pytest.fixture(scope="module")
def served(empty_data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Start `up` behind a proxy for the tests of this module."""
    folder = tmp_path_factory.mktemp("proxy")
    shutil.copytree(empty_data_folder, folder / "data")
    port = free_port()
    environment = environment_with(
        folder / "data",
        PORT=str(port),
        ALLOWED_HOSTS="forkline.example.org",
        ALLOWED_ORIGINS=SITE,
        CHECKPOINT_ROOTS=str(folder),
    )
    command = [sys.executable, "manage.py", "up"]
    up = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert up.stdout
    up.stdout.readline()
    yield Served(folder, port, up.stdout.readline().strip(), environment)
    up.terminate()
    up.communicate()


@pytest.fixture(scope="module")
def browser(served: Served) -> Proxy:
    """Return the browser that used the printed link."""
    return logged_in(served.port, served.link)


def logged_in(port: int, link: str) -> Proxy:
    assert link.startswith(f"{SITE}/login/link/?"), link
    browser = Proxy(port)
    parts = urlsplit(link)
    address = f"{parts.path}?{parts.query}"
    token = CSRF_TOKEN.search(browser.send("GET", address)[2])
    assert token
    assert browser.send("POST", address, SITE, csrfmiddlewaretoken=token[1])[0] == 302
    return browser


def test_forms_are_accepted_from_the_proxys_origin_only(served: Served, browser: Proxy) -> None:
    (served.folder / "checkpoints").mkdir()
    _, _, page = browser.send("GET", "/")
    token = CSRF_TOKEN.search(page)
    assert token
    fields = {"csrfmiddlewaretoken": token[1], "path": str(served.folder / "checkpoints")}
    add = re.search(r'action="([^"]*add[^"]*)"', page)
    assert add
    for origin in (
        f"http://127.0.0.1:{served.port}",
        "https://forkline.example.org:8443",
        "https://evil.test",
    ):
        assert browser.send("POST", add[1], origin, **fields)[0] == 403
    status, leads_to, _ = browser.send("POST", add[1], SITE, **fields)
    assert (status, leads_to[:11]) == (302, "/locations/")


def test_browsers_are_told_to_use_tls_only(browser: Proxy) -> None:
    for address in ("/", "/login/", "/nowhere/", "/static/icon.svg"):
        browser.send("GET", address)
        assert browser.headers["Strict-Transport-Security"] == f"max-age={365 * 24 * 60 * 60}", address


def test_cookies_are_sent_over_tls_only(browser: Proxy) -> None:
    browser.send("GET", "/")
    # The cookies of the session and of forms, and that of a message that was shown.
    assert len(browser.cookies) == 2 + ("messages" in browser.cookies)
    assert all(cookie["secure"] for cookie in browser.cookies.values())


def test_web_servers_on_other_ports_share_the_cookies_of_the_browser(served: Served, browser: Proxy) -> None:
    browser.send("GET", "/")
    assert {"forkline_session_443", "forkline_csrf_443"} <= set(browser.cookies)


def test_a_teammate_is_added_and_logged_in_by_a_link(served: Served) -> None:
    command = [sys.executable, "manage.py", "login_link"]
    for _ in range(2):
        made = subprocess.run(
            [*command, "ada"], cwd=ROOT, env=served.environment, capture_output=True, text=True, check=True
        )
        browser = logged_in(served.port, made.stdout.strip())
        assert "Log out" in browser.send("GET", "/")[2]
    refused = subprocess.run(
        [*command, "a b"], cwd=ROOT, env=served.environment, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert "valid username" in refused.stderr
