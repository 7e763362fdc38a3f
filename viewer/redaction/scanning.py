"""One fast look through a JSON text: every place at which ``redaction`` could change anything.

A checkpoint repeats its agents and events dozens of times, so decoding all of it just to find that
nothing is secret would cost most of an import. The patterns are parts of what the rules in
``redaction`` look for: no rule can hold where no pattern is, and the tests of both keep it so.
"""

from dataclasses import dataclass

from ahocorasick_rs import BytesAhoCorasick, MatchKind


@dataclass(slots=True)
class Findings:
    """Positions in a text, in order. ``nests`` tells of brackets that close many levels at once."""

    places: list[int]
    escapes: list[int]
    nests: bool


# Fields of every checkpoint that look secret and never are: met first, and passed over.
_HARMLESS = [
    *(f'{name}": null' for name in ("platform_token", "default_headers", "api_key")),
    *(f'{name}":null' for name in ("platform_token", "default_headers", "api_key")),
]
# Frequent words count only with what can follow a name.
_FREQUENT_NAMES = [
    *(f"{word}{end}" for word in ("key", "Key", "KEY", "oken", "OKEN") for end in '"\\=:\' _-'),
    "ess_tokens", "esh_tokens", "uth_tokens", "api_tokens", "pi_keys", "eaders\"", "eaders\\", "EADERS",
    "uth\"", "uth\\", "UTH\"", "UTH\\", "uth'", "uth=", "uth:", "UTH=", "piKey",
]  # fmt: skip
# First letters are left off where they may be large or small.
_NAMES = [
    "ecret", "ECRET", "assw", "ASSW", "assphr", "ASSPHR", "asscode", "ASSCODE", "redential", "REDENTIAL",
    "creds", "Creds", "CREDS", "uthoriz", "UTHORIZ", "ookie", "OOKIE", "earer", "EARER",
    "onnection_s", "onnectionS", "onnections", "ONNECTION_S",
]  # fmt: skip
_KEYS = [
    "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xapp-", "AIza", "gsk_",
    "npm_", "k_live_", "k_test_", "lsv2_", "PRIVATE KEY", "hooks.slack", "tvly-", "nvapi-", "pypi-", "xai-",
    "pplx-", "pcsk_", "glsa_", "whsec_", "lin_api_", "dckr_pat_", "dop_v1_", "shpat_", "ya29.", "/webhooks/",
    "telegram.org",
]  # fmt: skip
_SHORT = [
    "pwd", "Pwd", "PWD", "dsn", "Dsn", "DSN", "jwt", "Jwt", "JWT", "sk-", "xox", "hf_", "SG.", "eyJ",
    "://", ":/\\", ":\\/", ":\\\\", "r8_", "ntn_", "sbp_", "e2b_", "dapi", "hvs.",
    *(f"{word}{end}" for word in ("pass", "Pass", "PASS") for end in "\"\\=:'"),
    *(f"{word}{end}" for word in ("_pat", "_PAT") for end in "\"\\=:'"),
]  # fmt: skip
_ESCAPES = ["\\u0", "\\ud", "\\uD"]
_NESTS = ["}" * 8, "]" * 8, "}]" * 4, "]}" * 4]


def _search(*groups: list[str]) -> BytesAhoCorasick:
    """A search for all of them at once. It is fast for up to 64, and faster where none is short."""
    patterns = [pattern.encode() for group in groups for pattern in group]
    return BytesAhoCorasick(patterns, matchkind=MatchKind.LeftmostFirst)


_SEARCH_FREQUENT = _search(_HARMLESS, _FREQUENT_NAMES)
_SEARCH_LONG = _search(_NAMES, _KEYS, _NESTS)
_SEARCH_SHORT = _search(_SHORT, _ESCAPES)


def scan(data: bytes) -> Findings:
    """Every place of a JSON text that needs a closer look."""
    harmless, names, short = len(_HARMLESS), len(_NAMES) + len(_KEYS), len(_SHORT)
    found_long = _SEARCH_LONG.find_matches_as_indexes(data)
    found_short = _SEARCH_SHORT.find_matches_as_indexes(data)
    long_places = [start for number, start, _ in found_long if number < names]
    places = [start for number, start, _ in found_short if number < short]
    is_short_only = len(places) == len(found_short)
    escapes = [] if is_short_only else [start for number, start, _ in found_short if number >= short]
    found_frequent = _SEARCH_FREQUENT.find_matches_as_indexes(data)
    places += long_places
    places += [start for number, start, _ in found_frequent if number >= harmless]
    places.sort()
    return Findings(places, escapes, nests=len(long_places) < len(found_long))
