"""How secret a field is by its name, and which values such a field hides."""

from functools import lru_cache
from typing import Literal

import re2

from viewer.redaction.marker import MARKER
from viewer.redaction.names.shapes import is_machine_made, is_path, is_placeholder, is_words
from viewer.redaction.patterns import words
from viewer.redaction.rules.keywords import may_hold_secret

# What a field shows: with "hard", only null, booleans and placeholders; with "soft", also numbers; with
# "shaped", also plain words; with "random", everything but machine-made texts.
Secrecy = Literal["hard", "soft", "shaped", "random", ""]


def _word_set(text: str) -> frozenset[str]:
    return frozenset(words(text))


_MAX_NAME = 200
_HARD = _word_set(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds"
    " authorization cookie cookies dsn otp totp mnemonic passwort kennwort"
)
_SOFT = _word_set("jwt bearer apikey apikeys apitoken sshkey sessionid sessid phpsessid jsessionid sid2")
_SHAPED = _word_set("token auth headers")
# Words before "key" or "token" that make it an ordinary one.
_HARMLESS_OWNERS = _word_set(
    "cache primary foreign sort public partition crew task agent event run source group index unique"
    " dict map lookup row column item object result output input state memory storage idempotency hot"
    " short arrow translation locale registry checkpoint thread metric feature json data field entity"
    " answer first last next previous current new_token special pad eos bos unk stop start end sep"
    " mask cls this that each per any every single the a one no num second third keyboard shortcut"
    " api_name config option setting env variable legend header attribute property node parent child"
    " tree hash map list sorting grouping composite natural surrogate candidate music major minor"
    " answer_key stream log trace document record query search cursor"
)
# A field whose name ends with one of these describes a secret, but does not hold it.
_ABOUT = _word_set(
    "name names type types count usage limit required policy enabled disabled file path url uri"
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
    r"(?i)(?:(?:access|refresh|auth|api|id|bearer|session|bot)_?tokens|api[_\-]?keys|connection_?string|seed_?phrase"
    r"|recovery_?(?:phrase|codes?)|backup_?codes?|(?:mfa|2fa|verification|one_?time)_?(?:code|password)"
    r"|auth_?headers?|auth(?:entication)?_header|session_?(?:cookie|token|key)|ssh_?key|pin_?code|webhook_?url"
    r"|(?:storage|account|sas|shared_?access)_?(?:key|signature|token)|request_headers|default_headers|extra_headers)$"
)
# Names that are written as one word.
_COMPACT = re2.compile(
    r"(?:(?:api|access|secret|private|signing|encryption|ssh|master|auth|license)keys?|password|passwd|passphrase"
    r"|clientsecret|(?:access|auth|api|bearer|session|refresh|csrf|xsrf)token|connectionstring)$"
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
# Words before "pass" that make it a password, and before "pat" that make it a personal access token.
_PASS_OWNERS = _word_set(
    "become sudo vault db database smtp imap user mail email ftp sftp redis pg postgres mysql mongo admin"
    " root login proxy ssh rabbitmq amqp ldap wifi vpn basic http keystore truststore"
)
_PAT_OWNERS = _word_set("github gitlab gh azure ado devops git")
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


@lru_cache(maxsize=8192)
def secrecy_of(name: str) -> Secrecy:
    """Return the secrecy of a field with this name; empty if it is not secret."""
    if len(name) > _MAX_NAME or not may_hold_secret(f'{name}"'.encode("utf-8", "surrogatepass")):
        return ""
    name = name.strip()
    if whole := _WHOLE.search(name):
        ending = whole[0].lower()
        return "shaped" if ending.endswith("headers") else "hard" if "code" in ending else "soft"
    name = _CAMEL_TRAIL.sub(r"\1", _TRAIL.sub(r"\1", name))
    parts = split_words(name)
    if not parts or parts[-1] in _ABOUT:
        return ""
    if not _HARD.isdisjoint(parts):
        return "hard"
    last, owner = parts[-1], parts[-2] if len(parts) > 1 else ""
    if _COMPACT.search(last) or last in _SOFT:
        return "soft"
    if not (name[-1].isalnum() and (name[-1].isalpha() or _NUMBERED.search(name))):
        return ""
    return _secrecy_of_last(name, last, owner)


def _secrecy_of_last(name: str, last: str, owner: str) -> Secrecy:
    """Return the secrecy that the last word of a name and the word before it imply."""
    if (last in ("key", "pass", "pat") and not owner) or (last.endswith("key") and name == last.upper()):
        return "random"
    if owner in _HARMLESS_OWNERS:
        return ""
    is_pass = (last == "pass" and owner in _PASS_OWNERS) or (last == "pat" and owner in _PAT_OWNERS)
    if is_pass or last == "key" or (last == "token" and owner):
        return "soft"
    if last in _SHAPED:
        return "shaped"
    return "random" if _OF.search(name) else ""


def is_secret_text(text: str, secrecy: Secrecy) -> bool:
    """Return whether a field of this secrecy hides this text."""
    if not text or MARKER in text or is_placeholder(text):
        return False
    if secrecy == "random":
        return is_machine_made(text)
    if secrecy == "shaped":
        return not is_words(text) and not is_path(text)
    return not (secrecy == "hard" and text.startswith("/") and is_path(text))
