"""How secret a field or variable is by its name, and which values it hides."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import re2

from viewer.redaction import MARKER
from viewer.redaction.keywords import ADDRESS_WORDS, FOREIGN_LABELS, may_hold_secret
from viewer.redaction.patterns import (
    has_digit,
    has_known_format,
    has_secret_path,
    is_keyboard_or_musical,
    is_machine_made,
    is_made_up,
    is_mixed,
    is_ordinary,
    is_path,
    is_placeholder,
    is_prose,
    is_url,
    is_words,
    looks_random,
    plain_letters,
    without_invisible,
    words,
)
from viewer.redaction.vendor_tokens import labels

# What a field hides:
# - "hard": everything but null, booleans and placeholders;
# - "soft": not numbers either;
# - "shaped": not plain words either;
# - "cookie": not prose either;
# - "code": numbers of four or more digits, and texts with a digit;
# - "made": texts that look like a short key, and URLs with such a part;
# - "random": machine-made texts;
# - "vendor": machine-made texts that are not names of models or the like;
# - "headers": texts of eight or more mixed characters, and each field below that is no harmless header.
Secrecy = Literal["hard", "soft", "shaped", "cookie", "code", "made", "random", "vendor", "headers", ""]
# Levels that say nothing about the fields below such a field.
OWN_VALUE_ONLY = frozenset(["code", "made", "random", "vendor"])
# The least number that a field of a code hides.
MIN_CODE = 1000


def _word_set(text: str) -> frozenset[str]:
    return frozenset(words(text))


_MAX_NAME = 200
_HARD = _word_set(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds"
    " authorization dsn otp totp mnemonic passwort kennwort pw psk pswd passwrd userpass mdp"
)
_SOFT = _word_set("jwt bearer apikey apikeys apitoken sshkey sessionid sessid phpsessid jsessionid sid2")
_SHAPED = _word_set("token auth")
# Values of these are mostly ordinary.
_MADE = _word_set("session signature webhook webhooks sig hmac kubeconfig pat salt pepper seed sas csrf")
_COOKIE = _word_set("cookie cookies")
_CODE = _word_set("pin pins cvv cvc tan puk")
# Words before "key" or "token" that make it an ordinary one.
_HARMLESS_OWNERS = _word_set(
    "cache primary foreign sort public partition crew task agent event run source group index unique"
    " dict map lookup row column item object result output input state memory storage idempotency hot"
    " short arrow translation locale registry checkpoint thread metric feature json data field entity"
    " answer first last next previous current new_token special pad eos bos unk stop start end sep"
    " mask cls this that each per any every single the a one no num second third keyboard shortcut"
    " api_name config option setting env variable legend header attribute property node parent child"
    " tree hash map list sorting grouping composite natural surrogate candidate music major minor"
    " answer_key stream log trace document record query search cursor page pagination continuation song"
    " musical chord track tune camera piano camelot keyboard thought bounding render react list class"
)
# A field whose name ends with one of these describes a secret, but does not hold it.
_ABOUT = _word_set(
    "name names type types count usage limit required policy enabled disabled file path url uri urls uris"
    " expiry expires ttl provider length process field fields at in source method mode strength score"
    " reset rules rule manager label placeholder changed updated created date time min max level"
    " status state error errors message format pattern regex validator generator invalid valid"
    " missing found column columns index position budget size words icon help docs documentation"
    " description title hint page form input prompt family tokens version endpoint host server domain"
    " scope scopes set ok check checker store vault client service handler middleware class factory"
    " helper helpers util utils test tests example examples per rotation length algorithm alg"
    " encoding encoder decoder model models ratio rate rates cost price prices total used left"
    " remaining text management sharing free less box santa garden ingredient sauce agent level word"
    " owner sharing consent banner preferences jar recipe monster stuffing flow callback redirect"
    " issuer audience kind location dir folder"
)
_WHOLE = re2.compile(
    r"(?i)(?:(?:access|refresh|auth|api|id|bearer|session|bot)[_\-]?tokens|api[_\-]?keys"
    r"|client[_\-]?key[_\-]?data|connection[_\-]?strings?|conn[_\-]?str(?:ing)?|secure[_\-]?string|seed[_\-]?phrase|recovery[_\-]?(?:phrase|key)"
    r"|auth[_\-]?headers?|auth(?:entication)?[_\-]header|session[_\-]?(?:cookie|token|key)|ssh[_\-]?key"
    r"|webhook[_\-]?ur[li]|(?:storage|account|sas|shared_?access)_?(?:key|signature|token))$"
)
# Codes that a person types to get in.
_CODES = re2.compile(
    r"(?i)(?:^|[^a-z]|[a-z](?-i:[A-Z]))?(?:access|pin|pass|entry|door|gate|alarm|unlock|lock|secret|security"
    r"|login|sign[_\-]?in|sms|otp|mfa|2fa|totp|verification|confirmation|activation|invite|one[_\-]?time|backup|recovery"
    r"|auth(?:entication|orization)?)[_\- ]?(?:codes?|numbers?)$|(?:mfa|2fa|one_?time)_?password$"
)
# Addresses of databases and the like, which may hold a password.
_ADDRESSES = re2.compile(rf"(?i)(?:{'|'.join(ADDRESS_WORDS)})[_\-]?ur[il]s?$")
# Names that are written as one word.
_COMPACT = re2.compile(
    r"(?:(?:api|access|secret|private|signing|encryption|ssh|master|auth|license|hmac)keys?|password|passwd"
    r"|passphrase|clientsecret|(?:access|auth|api|bearer|session|refresh|csrf|xsrf|id|bot)token|connectionstring)$"
)
_NUMBERED = re2.compile(r"(?i)(?:key|token)[_\-]v?\d+$")
# Suffixes that do not change what a name means: api_key_old, token_value.
_TRAIL = re2.compile(
    r"(?i)(.)[_\-](?:value|raw|plain|plaintext|old|new|backup|prod|production|staging|dev|test|live|pem|b64|base64|hex"
    r"|str|string|text|here|env|default|main|primary|secondary|v?\d{1,3})$"
)
_CAMEL_TRAIL = re2.compile(r"([a-z])(?:Value|Raw|Pem|Base64|Hex|String|Plain|Old|New|Header)$")
# A key or token of a service: api_key_openai, token_github.
_OF = re2.compile(r"(?i)(?:api[_\-]?key|access[_\-]?key|secret[_\-]?key|token)[_\-]")
# Words before "pass" that make it a password.
_PASS_OWNERS = _word_set(
    "become sudo vault db database smtp imap user mail email ftp sftp redis pg postgres mysql mongo admin"
    " root login proxy ssh rabbitmq amqp ldap wifi vpn basic http keystore truststore"
)
# Headers that are never secret.
HARMLESS_HEADERS = _word_set(
    "accept accept-encoding accept-language accept-charset cache-control connection content-encoding"
    " content-length content-type content-language date etag expires host if-none-match last-modified"
    " location origin pragma referer retry-after server transfer-encoding user-agent vary via"
    " x-request-id x-forwarded-for x-powered-by x-forwarded-proto x-stainless-lang x-stainless-os"
    " http-referer x-title x-ratelimit-remaining keep-alive upgrade access-control-allow-origin"
    " anthropic-version openai-organization openai-beta"
)


def split_words(name: str) -> list[str]:
    """Return a name's words in lower case: apiKeys is [api, keys], OPENAI_API_KEY is [openai, api, key]."""
    found: list[str] = []
    at = start = 0
    size = len(name)
    while at < size:
        start = at
        if name[at].isupper():
            while at < size and name[at].isupper():
                at += 1
            # The last of several capitals begins the next word, except in a plural: APIs.
            if at < size and name[at].islower():
                if at - start > 1 and not (name[at] == "s" and not name[at + 1 : at + 2].isalpha()):
                    at -= 1
                    found.append(name[start:at].lower())
                    start = at
                    at += 1
                while at < size and name[at].islower():
                    at += 1
        elif name[at].islower():
            while at < size and name[at].islower():
                at += 1
        else:
            at += 1
            continue
        found.append(name[start:at].lower())
    return found


@lru_cache(maxsize=65_536)
def secrecy_of(name: str) -> Secrecy:
    """Return the secrecy of a field with this name; empty if it is not secret."""
    name = without_invisible(name).strip()
    level = _secrecy_of_plain(name)
    if level or name.isascii() or not _may_be_secret(name):
        return level
    plain = plain_letters(name)
    return _secrecy_of_plain(plain) if plain.isascii() else ""


def _may_be_secret(name: str) -> bool:
    return len(name) <= _MAX_NAME and may_hold_secret(f'{name}"'.encode("utf-8", "surrogatepass"))


def _secrecy_of_plain(name: str) -> Secrecy:
    if not _may_be_secret(name):
        return ""
    if level := _secrecy_of_ending(name):
        return level
    name = _CAMEL_TRAIL.sub(r"\1", _TRAIL.sub(r"\1", name))
    parts = split_words(name)
    if level := _foreign_secrecy(name, parts):
        return level
    if not parts or parts[-1] in _ABOUT:
        return ""
    if not _COOKIE.isdisjoint(parts):
        return "cookie"
    if not _HARD.isdisjoint(parts):
        return "hard"
    last, owner = parts[-1], parts[-2] if len(parts) > 1 else ""
    return (
        _secrecy_of_last(last, owner) or _secrecy_of_key(name, last, owner) or _secrecy_of_vendor(name, last)
    )


def _secrecy_of_ending(name: str) -> Secrecy:
    """Return the secrecy that the end of a name implies, however its words are written."""
    lowered = name.lower()
    if lowered.endswith("headers"):
        return "headers"
    if whole := _WHOLE.search(name):
        return "made" if whole[0].lower().startswith("webhook") else "soft"
    if lowered.endswith(("code", "codes", "number", "password")) and _CODES.search(name):
        return "hard" if lowered.endswith("password") else "code"
    is_address = lowered.endswith(("uri", "url", "uris", "urls")) and _ADDRESSES.search(name)
    return "made" if is_address else ""


def _foreign_secrecy(name: str, parts: list[str]) -> Secrecy:
    """Return the secrecy of a name that ends with, or in another script contains, a foreign label."""
    endings = (" ".join(parts[-count:]) for count in (1, 2, 3))
    if level := next((FOREIGN_LABELS[ending] for ending in endings if ending in FOREIGN_LABELS), None):
        return level
    if name.isascii():
        return ""
    spaced = name.lower().replace("_", " ").replace("-", " ")
    return next((level for label, level in FOREIGN_LABELS.items() if label in spaced), "")


def _secrecy_of_last(last: str, owner: str) -> Secrecy:
    """Return the secrecy that the last word of a name implies, unless that is "key", "pass" or "token"."""
    if last in _CODE:
        return "code"
    if last in _MADE and owner not in _HARMLESS_OWNERS and (last != "pat" or not owner):
        return "made"
    if last == "id" and owner == "session":
        return "random"
    return "soft" if last in _SOFT or _COMPACT.search(last) else ""


def _secrecy_of_key(name: str, last: str, owner: str) -> Secrecy:
    """Return the secrecy of a name that may be that of a key, password or token."""
    if not (name[-1].isalnum() and (name[-1].isalpha() or _NUMBERED.search(name))):
        return ""
    if last == "pass" and not owner:
        return "made"
    if (last == "key" and not owner) or (last.endswith("key") and name == last.upper()):
        return "random"
    if owner in _HARMLESS_OWNERS:
        return ""
    is_pass = (last == "pass" and owner in _PASS_OWNERS) or (last == "pat" and owner)
    if is_pass or last == "key" or (last == "token" and owner):
        return "soft"
    if last in _SHAPED:
        return "shaped"
    return "random" if _OF.search(name) else ""


# Random texts that identify something.
_IDENTIFIERS = _word_set("id ids release commit sha hash ref revision digest checksum trace etag fingerprint")
_VENDORS = re2.compile("|".join(labels()))


def _secrecy_of_vendor(name: str, last: str) -> Secrecy:
    """Return the secrecy of a name that contains that of a vendor, such as datadog_app."""
    return "vendor" if last not in _IDENTIFIERS and _VENDORS.search(name.lower()) else ""


def is_harmless_owner(word: str) -> bool:
    """Return whether this word before "key" or "token" makes it an ordinary one."""
    return word in _HARMLESS_OWNERS


def secrecy_below(name: str, secrecy: Secrecy) -> Secrecy:
    """Return the secrecy of a field of an object that is the value of a field with this secrecy."""
    if secrecy in OWN_VALUE_ONLY or not secrecy:
        return secrecy_of(name)
    if secrecy in ("headers", "shaped"):
        return "" if name.lower() in HARMLESS_HEADERS else "shaped"
    return secrecy


def is_secret_text(text: str, secrecy: Secrecy) -> bool:
    """Return whether a field of this secrecy hides this text."""
    if not text or MARKER in text or is_placeholder(text):
        return False
    return _HIDES[secrecy](text)


def _is_made(text: str) -> bool:
    # The password of a URL is found in any text.
    return has_secret_path(text) if is_url(text) else is_machine_made(text) or is_made_up(text)


def _is_cookie(text: str) -> bool:
    return not is_words(text) and ("=" in text or not is_prose(text))


def _is_code(text: str) -> bool:
    """Return whether a text is a code that a person types: 4711, 839-204, X7-K2-9Q."""
    if text.isdigit():
        return 4 <= len(text) <= 12
    if len(text) > 64 or " " in text.strip() or not has_digit(text):
        return False
    return text.replace("-", "").isdigit() or (len(text) >= 6 and is_mixed(text) and not is_ordinary(text))


_RUN = re2.compile(r"[A-Za-z0-9]{16}")
_HIDES: dict[Secrecy, Callable[[str], bool]] = {
    "hard": lambda text: not (text.startswith("/") and is_path(text)),
    "soft": lambda text: not is_keyboard_or_musical(text) and not (text.isdigit() and len(text) < 4),
    "shaped": lambda text: not is_words(text) and not is_path(text),
    "cookie": _is_cookie,
    "code": _is_code,
    "made": _is_made,
    "random": is_machine_made,
    "vendor": lambda text: is_machine_made(text) and _RUN.search(text) is not None,
    "headers": lambda text: looks_random(text) and is_mixed(text) and not is_path(text),
    "": lambda text: False,
}


def is_secret_number(number: float, secrecy: Secrecy) -> bool:
    """Return whether a field of this secrecy hides this number. Other numbers are counters."""
    return secrecy == "hard" or (secrecy == "code" and abs(number) >= MIN_CODE)


# Variables, such as those of an environment file, whose values are secrets wherever they appear.


# Minimum lengths of a secret, and of one that is a word: ordinary text contains shorter ones.
MIN_SECRET, MIN_WORD = 5, 8
# Minimum length of a secret whose name does not indicate one.
MIN_UNNAMED = 8


def secrets_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets among the values, sorted. Paths and URLs without a password are not secrets."""
    return tuple(sorted({secret for name, value in values.items() for secret in _secrets_in(name, value)}))


def _secrets_in(name: str, value: str) -> Iterator[str]:
    lines = [value, *(line for line in value.splitlines() if line != value)]
    secrecy = secrecy_of(name)
    # Most sessions, signatures and addresses are no secrets: their form decides.
    is_named = bool(secrecy) and (secrecy not in ("made", "code") or is_secret_text(value, secrecy))
    if "://" in value:
        yield from (part for part in _secrets_in_url(value) if _is_long_enough(part))
        if is_named and not _is_plain_url(value):
            yield value
    elif is_named:
        yield from (line for line in lines if _is_long_enough(line) and not is_placeholder(line))
    else:
        yield from (line for line in lines if _is_unnamed_secret(line))


def _is_long_enough(secret: str) -> bool:
    is_word = secret.isalpha()
    return len(secret) >= MIN_WORD or (len(secret) >= MIN_SECRET and not is_word)


def _is_unnamed_secret(value: str) -> bool:
    """Whether a value is a secret although its name does not say so."""
    if len(value) < MIN_UNNAMED or is_placeholder(value) or is_words(value):
        return False
    # Names of models, versions, dates, paths, numbers and flags are not.
    return not (value.isdigit() or has_known_format(value) or _is_name(value)) and is_mixed(value)


def _is_name(value: str) -> bool:
    """Whether it consists of words and short numbers, joined by signs: gpt-4o-mini, eu-west-1, a.b:8000."""
    parts = [part for sign in "_-./:,; " for part in [value] if sign in part]
    pieces = value
    for sign in "_-./:,;@ ":
        pieces = pieces.replace(sign, " ")
    words = pieces.split()
    return bool(parts) and all(
        word.isalpha() or (word.isdigit() and len(word) <= 8) or len(word) <= 3 for word in words
    )


def _secrets_in_url(url: str) -> Iterator[str]:
    """Yield the password of a URL, as written and decoded, and its secret parameters."""
    try:
        parts = urlsplit(url)
        password, query = parts.password, parse_qsl(parts.query)
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
    yield from (value for name, value in query if secrecy_of(name))


def _is_plain_url(url: str) -> bool:
    return next(_secrets_in_url(url), None) is None
