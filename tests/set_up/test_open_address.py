"""The web server listens where other machines reach it only with TLS and a key that nobody guesses."""

import pytest
from django.conf import LazySettings
from django.core.management.base import CommandError

from viewer.management.commands.up import refuse_unprotected_address

KEY = "QYv0k9mY8kq3Jx6r1Zt5Wc2Hn7Pb4Ld0Sg8Fu1Ea6Rj3To9XiVwBm"


@pytest.mark.parametrize(
    ("address", "has_tls", "key", "advice"),
    [
        ("127.0.0.1", False, "x", ""),
        ("127.0.0.2", False, "x", ""),
        ("0.0.0.0", True, KEY, ""),
        ("0.0.0.0", False, KEY, "ALLOWED_ORIGINS=https://"),
        ("192.0.2.1", False, KEY, "ALLOWED_ORIGINS=https://"),
        ("0.0.0.0", True, "secret", "token_urlsafe"),
        ("0.0.0.0", True, "ab" * 40, "token_urlsafe"),
    ],
)
def test_an_unprotected_address_is_refused_with_what_helps(
    settings: LazySettings, address: str, has_tls: bool, key: str, advice: str
) -> None:
    settings.LISTEN_ADDRESS, settings.IS_BEHIND_TLS, settings.SECRET_KEY = address, has_tls, key
    if not advice:
        refuse_unprotected_address()
        return
    with pytest.raises(CommandError, match=advice):
        refuse_unprotected_address()
