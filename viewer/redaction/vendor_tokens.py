"""Tokens of vendors, recognised by their own form: sk-…, ghp_…, a JWT.

One pass finds the prefixes of tokens. A token's pattern is matched only at its prefix.
"""

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction.patterns import (
    TextSpan,
    compiled,
    entropy,
    has_digit,
    has_upper,
    is_ordinary,
    is_uuid,
    words,
)

RULES = Path(__file__).with_name("vendor_tokens.toml")
# The maximum number of bytes that are matched of a token.
MAX_TOKEN = 2048
MAX_JWT = 8192
# Longer texts with the form of a token are not names or versions.
MAX_NAME = 40
# Any long word after one of these prefixes is a token. The vendors' rules are stricter, but lengths change.
LOOSE = words(
    "sk- gsk_ hf_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glrt- xapp- xoxb- xoxa- xoxp- xoxe-"
    " xoxr- xoxs- xoxo- xoxc- xoxd- AIza npm_ sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ lsv2_ SG."
    " tvly- nvapi- pypi- xai- pplx- csk- pcsk_ glsa_ whsec_ lin_api_ dckr_pat_ r8_ ntn_ dop_v1_"
    " shpat_ sbp_ e2b_ dapi ya29. hvs. hvb. GOCSPX- jina_ figd_ sntrys_ sntryu_ NRAK- secret_"
    " pat-na1- pat-eu1- xkeysib- AGE-SECRET-KEY-1 shpss_ shppa_ shpca_ rubygems_ PMAK- phx_ dp.pt."
    " dp.st. lsv2_pt_ tgp_v1_ sq0atp- sq0csp- EAAA napi_ sb_secret_ vcp_ rnd_ tskey- glc_ sgp_ ATATT"
    " ATCTT BBDC- apify_api_ pscale_tkn_ pscale_pw_ bkua_ CCIPAT_ HRKU- llx- 1//0 AKCp whsk_ sk_car_"
    " rpa_ mlsn. sl.B FLWSECK xoxe. dckr_oat_ sk_prod_ fc- pat-na2- pat-au1- pat-ap1- na1- eu1- ABSK"
    " CCIPRJ_ al- pa- fkl_"
)
_LOOSE_WORD = compiled(r"[A-Za-z0-9_\-.+=]*[A-Za-z0-9_\-=]")
# The least length after a prefix, if it is not the usual one.
_MIN_LENGTHS = {
    "sk-": 8,
    "AIza": 20,
    "dapi": 20,
    "key-": 28,
    "tk-": 24,
    "fc-": 24,
    "ABSK": 60,
    "al-": 40,
    "pa-": 40,
    "na1-": 20,
    "eu1-": 20,
    "fw_": 20,
    "exa-": 20,
    "secret_": 24,
    # Our own (viewer/models/accounts.py).
    "fkl_": 43,
}
# Prefixes that also occur inside words.
AMBIGUOUS = frozenset(
    words(
        "sk_ rk_ ion_ re_ ext_ pat al- pa- s. na1- eu1- fc- cio oy2 sl. sat. pat. pk. sk. tk. 1000. hawk. dt0"
    )
)
_AWS = compiled(r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,20}")
_JWT = compiled(r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)*")
_AWS_STARTS, _JWT_START = ("AKIA", "ASIA", "ABIA", "ACCA"), "eyJ"
# Tokens without a prefix, each with keywords of which it contains one. With a group, only that is secret.
_HEX = words("0 1 2 3 4 5 6 7 8 9 a b c d e f A B C D E F")
_BETWEEN = r"[^0-9A-Za-z]{1,12}(?:[A-Za-z_]{1,24}[^0-9A-Za-z]{1,8}){0,3}"
_ANCHORED = (
    # Telegram
    ((":A",), compiled(r"(?:\b|bot)\d{5,16}:A[A-Za-z0-9_\-]{30,45}")),
    # Terraform
    ((".atlasv1.",), compiled(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9\-_=]{20,80}")),
    # Mailchimp
    (("-us1", "-us2", "-us3", "-us4", "-us5"), compiled(r"\b[0-9a-f]{32}-us[1-9]\d?\b")),
    # Hashes of passwords
    (("$",), compiled(r"\$(?:2[abxy]|1|5|6|y|apr1|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{20,200}")),
    (
        ("pbkdf2_", "scrypt:"),
        compiled(
            r"\b(?:pbkdf2_sha\d{1,3}\$\d{1,8}|scrypt:\d{1,8}:\d{1,3}:\d{1,3})\$[./A-Za-z0-9$=+]{20,300}"
        ),
    ),
    # Discord
    (
        (".G", ".X", ".Y", ".Z"),
        compiled(r"\b[MNO][A-Za-z0-9_\-]{22,28}\.[GXYZ][A-Za-z0-9_\-]{5}\.[A-Za-z0-9_\-]{25,45}"),
    ),
    # Twilio: keys. Its tokens have no form of their own, see pairs.
    (tuple(f"SK{one}" for one in _HEX), compiled(r"\bSK[0-9a-fA-F]{32}\b")),
    # Twilio: a token behind the account's id, with at most three words between them.
    (
        tuple(f"AC{one}" for one in _HEX),
        compiled(rf"\bAC[0-9a-fA-F]{{32}}{_BETWEEN}([0-9a-fA-F]{{32}})\b"),
    ),
    # AWS: a secret behind its id, as in the console's CSV.
    (
        ("AKIA", "ASIA"),
        compiled(rf"\b(?:AKIA|ASIA)[0-9A-Z]{{16}}{_BETWEEN}([A-Za-z0-9/+]{{40}})(?:[^A-Za-z0-9/+]|$)"),
    ),
    # Facebook
    (tuple(f"{one}|" for one in _HEX[:10]), compiled(r"\b\d{15,16}\|[0-9A-Za-z_\-]{27,40}\b")),
    # MaxMind, Azure, Salesforce, Tableau, Airtable's OAuth
    (("_mmk",), compiled(r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b")),
    (tuple(f"{one}Q~" for one in _HEX[:10]), compiled(r"[A-Za-z0-9_~.\-]{3}\dQ~[A-Za-z0-9_~.\-]{31,34}")),
    (("00D",), compiled(r"\b00D[A-Za-z0-9]{12}(?:[A-Za-z0-9]{3})?![A-Za-z0-9._\-]{60,260}")),
    (("==:",), compiled(r"\b[A-Za-z0-9+/]{22}==:[A-Za-z0-9]{32}\b")),
    # eBay
    (("PRD-", "SBX-"), compiled(r"\b(?:PRD|SBX)-[0-9a-f]{8,12}(?:-[0-9a-f]{4,12}){2,4}\b")),
    # Azure DevOps and other services of Microsoft: a checksum of their keys.
    (
        ("AZDO", "AzSe", "AzCa", "AzFu", "ACDb", "AIoT", "APIM", "JQQJ9"),
        compiled(
            r"\b[A-Za-z0-9+/]{38,76}(?:AZDO|AzSe|AzCa|AzFu|ACDb|AIoT|APIM|JQQJ9)[A-Za-z0-9+/]{4,44}={0,2}"
        ),
    ),
)
_PATTERNS_OF: dict[str, list[Any]] = {}
for _keywords, _pattern in _ANCHORED:
    for _keyword in _keywords:
        _PATTERNS_OF.setdefault(_keyword, []).append(_pattern)
_ANCHORED_PATTERNS = list(_PATTERNS_OF.values())
ANCHORS = tuple(keyword for keyword in _PATTERNS_OF if keyword != "$")
# Bytes before a prefix that also occurs inside words.
BEFORE_WORDS = b"\"' =:(`/\n"


@lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    return tomllib.loads(RULES.read_text())


@lru_cache(maxsize=1)
def rules() -> dict[str, list[str]]:
    """Return the vendors' patterns by prefix."""
    found: dict[str, list[str]] = {}
    for rule in _file().values():
        for prefix in rule["prefixes"] if isinstance(rule, dict) else ():
            found.setdefault(prefix, []).append(rule["pattern"])
    return found


def labels() -> list[str]:
    """Return names of vendors whose tokens are recognised only by such a label, in lower case."""
    found: list[str] = _file()["labels"]
    return found


@lru_cache(maxsize=1)
def prefixes() -> list[str]:
    """Return all prefixes of vendor tokens."""
    return sorted({*rules(), *LOOSE, *_AWS_STARTS, _JWT_START})


@lru_cache(maxsize=1)
def prefix_search() -> BytesAhoCorasick:
    """Return a search for all prefixes, and then all keywords of tokens without a prefix."""
    texts = [*prefixes(), *_PATTERNS_OF]
    return BytesAhoCorasick([text.encode() for text in texts], matchkind=MatchKind.Standard)


@lru_cache(maxsize=512)
def _patterns(prefix: str) -> list[Any]:
    return [compiled(pattern) for pattern in rules().get(prefix, ())]


def token_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of vendors' tokens."""
    names = prefixes()
    found = prefix_search().find_matches_as_indexes(data, overlapping=True)
    keywords = {number - len(names) for number, _, _ in found if number >= len(names)}
    for pattern in {pattern for number in keywords for pattern in _ANCHORED_PATTERNS[number]}:
        yield from (token.span(pattern.groups) for token in pattern.finditer(data))
    last_end = 0
    # By position, and of the prefixes at the same position the longest first.
    at_prefixes = ((start, -end, number) for number, start, end in found if number < len(names))
    for start, _, number in sorted(at_prefixes):
        if start < last_end:
            continue
        prefix = names[number]
        is_inside = start > 0 and _is_alphanumeric(data[start - 1]) and not _is_escape(data, start)
        if is_inside and not _is_behind_label(data, start, prefix):
            continue
        if prefix in AMBIGUOUS and not is_at_start(data, start):
            continue
        end, next_start = _token_end(data, start, prefix)
        if end:
            yield start, end
        last_end = max(last_end, end, next_start)


def is_at_start(data: bytes, start: int) -> bool:
    """Return whether a word begins here, and not a part of one."""
    return not start or data[start - 1] in BEFORE_WORDS or _is_escape(data, start)


# A long random word that begins with a frequent prefix although a letter precedes it: openaikeysk-proj-…
_GLUED = compiled(r"[A-Za-z0-9_\-]{24,200}")
_RUN = compiled(r"[A-Za-z0-9]{16}")


def _is_behind_label(data: bytes, start: int, prefix: str) -> bool:
    """Return whether the letters before a token are a label, not a part of a word such as “disk-…”."""
    if len(prefix) < 3 or prefix not in _LOOSE_SET or not 97 <= data[start - 1] <= 122:
        return False
    word = _GLUED.match(data, start, start + 200)
    if word is None or not _RUN.search(word[0]):
        return False
    tail = word[0][len(prefix) :].decode("latin-1")
    return has_digit(tail) and has_upper(tail) and any(map(str.islower, tail)) and entropy(tail) >= 3.5


def _is_alphanumeric(byte: int) -> bool:
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122


def _is_escape(data: bytes, start: int) -> bool:
    """Return whether the letter before the token belongs to an escaped line break or tab."""
    return data[start - 2 : start - 1] == b"\\" and data[start - 1] in b"nrt"


def _token_end(data: bytes, start: int, prefix: str) -> tuple[int, int]:
    """Return the end of the token that begins here (0 if none does), and where the next may begin."""
    if prefix == _JWT_START:
        found = _JWT.match(data, start, start + MAX_JWT)
        return (found.end() if found else 0), 0
    if prefix in _AWS_STARTS:
        found = _AWS.match(data, start, start + 40)
        return (found.end() if found else 0), 0
    if prefix in _LOOSE_SET:
        rest = start + len(prefix)
        word = _LOOSE_WORD.match(data, rest, start + MAX_TOKEN)
        tail = word[0].decode("latin-1") if word else ""
        if _is_loose_token(tail, prefix):
            return rest + len(tail), 0
        if not has_digit(tail) and not has_upper(tail) and not (prefix == "hf_" and len(tail) == HF_LETTERS):
            # No part of it is a token either.
            return 0, rest + len(tail)
    for pattern in _patterns(prefix):
        if found := pattern.match(data, start, start + MAX_TOKEN):
            text = found[0].decode("latin-1")
            if prefix not in AMBIGUOUS or len(text) > MAX_NAME or (has_digit(text) and not is_ordinary(text)):
                return found.end(), 0
    return 0, 0


# Some tokens of Hugging Face are letters only.
HF_LETTERS = 34


_LOOSE_SET = frozenset(LOOSE)


def _is_loose_token(tail: str, prefix: str) -> bool:
    """Return whether this is the rest of a token with this prefix."""
    if len(tail) < _MIN_LENGTHS.get(prefix, 16) or not (has_digit(tail) or has_upper(tail)):
        return False
    return prefix in ("AIza", "ya29.", "SG.") or is_uuid(tail) or not is_ordinary(tail)
