"""The addresses of keys: those of known vendors, or those that the environment file has."""

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Vendor:
    """The address of a vendor's interface, and the variables in which its clients look for another one."""

    address: str
    variables: tuple[str, ...]


# By the beginning of their variables. quality/fuzz/key_clients.py tries them with real clients.
VENDORS = {
    "OPENAI": Vendor("https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "ANTHROPIC": Vendor(
        "https://api.anthropic.com", ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_API_URL")
    ),
    "OPENROUTER": Vendor("https://openrouter.ai/api/v1", ("OPENROUTER_BASE_URL", "OPENROUTER_API_BASE")),
    "DEEPSEEK": Vendor("https://api.deepseek.com/v1", ("DEEPSEEK_BASE_URL", "DEEPSEEK_API_BASE")),
}
KEY_ENDINGS = re.compile(r"([A-Z][A-Z0-9_]{0,60}?)_(?:API_KEY|API_TOKEN|AUTH_TOKEN|ACCESS_TOKEN|KEY|TOKEN)")
ADDRESS_ENDINGS = ("BASE_URL", "API_BASE", "API_URL", "ENDPOINT", "URL")


def stem_of(variable: str) -> str:
    """The beginning that the variables of one vendor share, such as ``OPENAI``; empty for another name."""
    found = KEY_ENDINGS.fullmatch(variable)
    return found[1] if found else ""


def address_variables(stem: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that clients follow: those of the vendor, else those that the environment file sets."""
    if vendor := VENDORS.get(stem):
        return vendor.variables
    return tuple(name for ending in ADDRESS_ENDINGS if values.get(name := f"{stem}_{ending}"))


def address_of(variable: str, values: Mapping[str, str]) -> str:
    """The address to which the clients send this key; empty if that is not known.

    Raises ValueError if the environment file has several, or one to which no key may go.
    """
    stem = stem_of(variable)
    given = {checked_address(values[name]) for name in address_variables(stem, values) if values.get(name)}
    if len(given) > 1:
        raise ValueError(" ".join(sorted(given)))
    return given.pop() if given else VENDORS[stem].address if stem in VENDORS else ""


def checked_address(text: str) -> str:
    """The address without a slash at its end. Raises ValueError if no key may go there.

    It is https, or http on this machine, and has neither a password, a query nor ``..``.
    """
    parts = urlsplit(text)
    host = parts.hostname or ""
    is_plain = parts.scheme == "http" and _is_loopback(host)
    is_strange = parts.username is not None or parts.query or parts.fragment or ".." in unquote(parts.path)
    # Reading the port raises ValueError for an invalid one.
    if not host or parts.port == 0 or is_strange or not re.fullmatch(r"[!-\[\]-~]+", text):
        raise ValueError(text)
    if parts.scheme != "https" and not is_plain:
        raise ValueError(text)
    return text.rstrip("/")


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
