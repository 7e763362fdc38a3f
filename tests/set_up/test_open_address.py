"""Other machines reach the web server only with TLS, and only with a signing key that nobody guesses."""

import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management.base import CommandError

from checkpoint_site.environment import InvalidSetting, refuse_guessable
from tests.environments import environment_with
from viewer.management.commands.up import refuse_unprotected_address

KEY = "QYv0k9mY8kq3Jx6r1Zt5Wc2Hn7Pb4Ld0Sg8Fu1Ea6Rj3To9XiVwBm"


@pytest.mark.parametrize(
    ("address", "has_tls", "advice"),
    [
        ("127.0.0.1", False, ""),
        ("127.0.0.2", False, ""),
        ("0.0.0.0", True, ""),
        ("0.0.0.0", False, "ALLOWED_ORIGINS=https://"),
        ("192.0.2.1", False, "ALLOWED_ORIGINS=https://"),
    ],
)
def test_an_unprotected_address_is_refused_with_what_helps(
    settings: LazySettings, address: str, has_tls: bool, advice: str
) -> None:
    settings.LISTEN_ADDRESS, settings.IS_BEHIND_TLS = address, has_tls
    if not advice:
        refuse_unprotected_address()
        return
    with pytest.raises(CommandError, match=advice):
        refuse_unprotected_address()


@pytest.mark.parametrize("key", ["", KEY[:49], "ab" * 40, f"django-insecure-{KEY}"])
def test_a_key_that_can_be_guessed_is_refused(key: str) -> None:
    refuse_guessable(KEY)
    refuse_guessable(secrets.token_hex(32))
    with pytest.raises(InvalidSetting, match="token_urlsafe"):
        refuse_guessable(key)


@pytest.mark.parametrize(
    ("variables", "is_refused"),
    [
        ({}, False),
        ({"LISTEN_ADDRESS": "127.0.0.2"}, False),
        ({"LISTEN_ADDRESS": "0.0.0.0"}, True),
        ({"ALLOWED_HOSTS": "a.org", "ALLOWED_ORIGINS": "https://a.org"}, True),
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/rows"}, True),
    ],
)
def test_what_others_use_needs_a_key_that_nobody_guesses(
    tmp_path: Path, variables: dict[str, str], is_refused: bool
) -> None:
    own = environment_with(tmp_path / "data") | {"SECRET_KEY": "secret"} | variables
    code = "from django.conf import settings; settings.SECRET_KEY"
    ended = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True, check=False)
    assert ended.returncode == is_refused
    assert ended.stderr.count("\n") == is_refused and is_refused == ("SECRET_KEY can be" in ended.stderr)
    # An invalid variable creates nothing.
    assert (tmp_path / "data").exists() != is_refused
