"""Tokens of vendors, recognised by their own form: sk-…, ghp_…, a JWT.

One pass finds the prefixes of tokens. A token's pattern is matched only at its prefix.
"""

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction.names.shapes import has_digit, has_upper, is_ordinary
from viewer.redaction.patterns import TextSpan, compiled, words

RULES = Path(__file__).with_name("vendor_tokens.toml")
# The maximum number of bytes that are matched of a token.
MAX_TOKEN = 2048
MAX_JWT = 8192
# Any long word after one of these prefixes is a token. The vendors' rules are stricter, but lengths change.
LOOSE = words(
    "sk- gsk_ hf_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glrt- xapp- xoxb- xoxa- xoxp- xoxe-"
    " xoxr- xoxs- xoxo- xoxc- xoxd- AIza npm_ sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ lsv2_ SG."
    " tvly- nvapi- pypi- xai- pplx- csk- pcsk_ glsa_ whsec_ lin_api_ dckr_pat_ r8_ ntn_ dop_v1_"
    " shpat_ sbp_ e2b_ dapi ya29. hvs. hvb. GOCSPX- jina_ figd_ sntrys_ sntryu_ NRAK- secret_"
    " pat-na1- pat-eu1- xkeysib- AGE-SECRET-KEY-1 shpss_ shppa_ shpca_ rubygems_ PMAK- phx_ dp.pt."
    " dp.st. lsv2_pt_ tgp_v1_ sq0atp- sq0csp- EAAA napi_ sb_secret_ vcp_ rnd_ tskey- glc_ sgp_ ATATT"
    " ATCTT BBDC- apify_api_ pscale_tkn_ pscale_pw_ bkua_ CCIPAT_ HRKU- llx- 1//0 AKCp whsk_ sk_car_"
    " rpa_ mlsn. sl.B FLWSECK xoxe. dckr_oat_ sk_prod_"
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
    "fw_": 20,
    "exa-": 20,
    "secret_": 24,
}
_AWS = compiled(r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,20}")
_JWT = compiled(r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)*")
_AWS_STARTS, _JWT_START = ("AKIA", "ASIA", "ABIA", "ACCA"), "eyJ"
# Tokens without a prefix, each with a keyword that they contain.
_OTHERS = (
    (b":AA", compiled(r"\b\d{8,10}:AA[A-Za-z0-9_\-]{20,40}")),
    (b".atlasv1.", compiled(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9\-_=]{20,80}")),
    (b"-us", compiled(r"\b[0-9a-f]{32}-us[12]\d?\b")),
    (b"$", compiled(r"\$(?:2[aby]|6|apr1|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{20,200}")),
    (b"iscord", compiled(r"\b[MNO][A-Za-z0-9_\-]{23,28}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}")),
    (b"wilio", compiled(r"\bSK[0-9a-f]{32}\b")),
)


@lru_cache(maxsize=1)
def rules() -> dict[str, list[str]]:
    """Return the vendors' patterns by prefix."""
    found: dict[str, list[str]] = {}
    for rule in tomllib.loads(RULES.read_text()).values():
        for prefix in rule["prefixes"]:
            found.setdefault(prefix, []).append(rule["pattern"])
    return found


@lru_cache(maxsize=1)
def prefixes() -> list[str]:
    """Return all prefixes of vendor tokens."""
    return sorted({*rules(), *LOOSE, *_AWS_STARTS, _JWT_START})


@lru_cache(maxsize=1)
def prefix_search() -> BytesAhoCorasick:
    """Return a search for all prefixes."""
    return BytesAhoCorasick([prefix.encode() for prefix in prefixes()], matchkind=MatchKind.Standard)


@lru_cache(maxsize=512)
def _patterns(prefix: str) -> list[Any]:
    return [compiled(pattern) for pattern in rules().get(prefix, ())]


def token_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of vendors' tokens."""
    last_end = 0
    names = prefixes()
    found_prefixes = prefix_search().find_matches_as_indexes(data, overlapping=True)
    # By position, and of the prefixes at the same position the longest first.
    for start, _, number in sorted((start, -end, number) for number, start, end in found_prefixes):
        if start < last_end or (start and _is_alphanumeric(data[start - 1]) and not _is_escape(data, start)):
            continue
        end, next_start = _token_end(data, start, names[number])
        if end:
            yield start, end
        last_end = max(last_end, end, next_start)
    for keyword, pattern in _OTHERS:
        if keyword in data:
            yield from (found.span() for found in pattern.finditer(data))


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
        if not has_digit(tail) and not has_upper(tail):
            # No part of it is a token either.
            return 0, rest + len(tail)
    for pattern in _patterns(prefix):
        if found := pattern.match(data, start, start + MAX_TOKEN):
            return found.end(), 0
    return 0, 0


_LOOSE_SET = frozenset(LOOSE)


def _is_loose_token(tail: str, prefix: str) -> bool:
    """Return whether this is the rest of a token with this prefix."""
    if len(tail) < _MIN_LENGTHS.get(prefix, 16) or not (has_digit(tail) or has_upper(tail)):
        return False
    return prefix in ("AIza", "ya29.", "SG.") or not is_ordinary(tail)
