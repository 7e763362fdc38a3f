"""Which names are those of secrets, and which values below them may be one."""

import re
from functools import lru_cache
from typing import Literal

# Stands where a secret stood.
MARKER = "[redacted]"

# hard: nothing but null and booleans stays. soft: numbers stay too. random: only random-looking texts go.
Secrecy = Literal["hard", "soft", "random", ""]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A number at the end of a name, as in API_KEY_2, is none of its words.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# One text for each list, words apart by spaces: shorter to read than as many quoted ones.
_HARD = _words(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds"
    " authorization cookie cookies dsn"
)
_SOFT = _words("token jwt bearer auth apikey apitoken headers")
_HARMLESS_OWNERS = _words(
    "cache primary foreign sort public partition crew task agent event run source group index unique dict map"
    " lookup row column item object result output input state memory storage idempotency hot short arrow"
    " translation locale registry checkpoint thread metric feature json data field entity"
)
# A name that ends so tells about a secret, and does not hold it.
_ABOUT = _words(
    "name names type types count usage limit required policy enabled file path url uri expiry expires ttl"
    " provider length process field fields at in source method mode"
)
_WHOLE = re.compile(
    r"(?:access|refresh|auth|api)_tokens\Z|api_keys\Z"
    r"|(?:connection_string|connectionString|ConnectionString|CONNECTION_STRING)\Z"
)
# Written as one word.
_COMPACT = re.compile(
    r"(?:(?:api|access|secret|private)key|password|passwd|clientsecret|(?:access|auth)token|connectionstring)\Z"
)
_NUMBERED = re.compile(r"(?:[Kk]ey|KEY|[Tt]oken|TOKEN)[_\-][vV]?\d+\Z")
# What follows a name of a secret without making it another thing: api_key_old, token_value.
_TRAIL = re.compile(r"(?<=.)[_\-](?:value|raw|plain|old|new|backup|prod|dev|test|live|[vV]\d+)\Z", re.I)
# A key or token of something: api_key_openai, token_github.
_OF = re.compile(r"(?:[Aa]pi|API)[_\-]?(?:[Kk]ey|KEY)[_\-]|(?:[Tt]oken|TOKEN)[_\-]")
# Whose "pass" is a password, and whose "pat" a personal access token.
_PASS_OWNERS = _words(
    "db database smtp imap user mail email ftp redis pg postgres mysql mongo admin root login proxy"
)
_PAT_OWNERS = _words("github gitlab gh azure ado devops git")


@lru_cache(maxsize=4096)
def secrecy_of(name: str) -> Secrecy:
    """How secret a field of this name is; empty for one that is not."""
    name = _TRAIL.sub("", name)
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _ABOUT:
        return ""
    if not _HARD.isdisjoint(words) or _COMPACT.search(words[-1]):
        return "hard" if not _HARD.isdisjoint(words) else "soft"
    if not (name[-1].isalpha() or _NUMBERED.search(name)):
        return ""
    last, owner = words[-1], words[-2] if len(words) > 1 else ""
    if (last in ("key", "pass", "pat") and not owner) or (last.endswith("key") and name == last.upper()):
        return "random"
    is_key = last == "key" and owner not in _HARMLESS_OWNERS
    is_pass = (last == "pass" and owner in _PASS_OWNERS) or (last == "pat" and owner in _PAT_OWNERS)
    if is_key or is_pass or last in _SOFT or _WHOLE.search(name):
        return "soft"
    return "random" if _OF.search(name) else ""


def looks_random(text: str) -> bool:
    """Whether a text of eight or more signs is no ordinary word: it mixes letters with other signs."""
    return len(text) >= 8 and not text.isalpha() and not text.isdigit() and not text.isspace()


def is_secret_text(text: str, secrecy: Secrecy) -> bool:
    """Whether this is what a field of that secrecy hides; under a mere “key” only what looks like one."""
    if not text or text == MARKER:
        return False
    return secrecy != "random" or (len(text) >= 16 and " " not in text and looks_random(text))
