"""One fast look through a JSON text for what may need care: secrets, deep nesting, odd escapes.

A checkpoint repeats its agents and events dozens of times, so decoding all of it just to find that
nothing is secret would cost most of an import. The search finds every place where a secret can be
told by its neighbourhood; ``redacted_json`` then looks at those places alone.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ahocorasick_rs import BytesAhoCorasick, MatchKind


class Place(NamedTuple):
    start: int
    end: int


@dataclass(slots=True)
class Findings:
    """Where names that may be secret end, where tokens may begin, and what else was met."""

    names: list[Place] = field(default_factory=list)
    tokens: list[Place] = field(default_factory=list)
    escapes: list[Place] = field(default_factory=list)
    # What a pattern alone cannot judge: private keys, passwords in addresses.
    odd: list[Place] = field(default_factory=list)
    nests: bool = False


# The search is fast for up to 64 patterns, hence two of them, and stems instead of every spelling.
# Fields of every checkpoint that look secret and never are: met first, and passed over.
_HARMLESS = [
    *(f'{name}": null' for name in ("platform_token", "default_headers", "api_key")),
    *(f'{name}":null' for name in ("platform_token", "default_headers", "api_key")),
]
_NAMES = [
    # Frequent words count only with what can follow a name.
    *(f"{word}{end}" for word in ("ey", "EY", "oken", "OKEN") for end in '"\\=:\''),
    "ess_tokens", "esh_tokens", "uth_tokens", "api_tokens", "Tokens\"", "eaders\"", "uth\"", "earer\"",
    "ecret", "ECRET", "assw", "ASSW", "assphr", "ASSPHR", "asscode", "pwd", "PWD", "Pwd",
    "redential", "REDENTIAL", "uthoriz", "UTHORIZ", "ookie", "OOKIE", "jwt", "JWT", "creds", "CREDS",
    "dsn", "DSN", "nnection_s", "nnectionS", "NNECTION_S",
]  # fmt: skip
_TOKENS = [
    "sk-", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-",
    "AIza", "ya29.", "hf_", "gsk_", "npm_", "pypi-", "k_live_", "k_test_", "whsec_", "lsv2_", "tvly-",
    "nvapi-", "xai-", "SG.", "eyJ",
]  # fmt: skip
_ODD = [":\\/", "PRIVATE KEY", "://", "hooks.slack", "earer ", "EARER "]
_ESCAPES = ["\\u00", "\\ud", "\\uD"]
_NESTS = ["}" * 8, "]" * 8, "}]" * 4, "]}" * 4]
_BESIDE_NAMES = {"tokens": _TOKENS, "odd": _ODD, "escapes": _ESCAPES, "nests": _NESTS}
_KIND_OF = [kind for kind, patterns in _BESIDE_NAMES.items() for _ in patterns]


def _search(patterns: list[str]) -> BytesAhoCorasick:
    return BytesAhoCorasick([pattern.encode() for pattern in patterns], matchkind=MatchKind.LeftmostFirst)


_NAME_SEARCH = _search(_HARMLESS + _NAMES)
_OTHER_SEARCH = _search([pattern for patterns in _BESIDE_NAMES.values() for pattern in patterns])


def scan(data: bytes) -> Findings:
    """Every place of a JSON text that needs a closer look."""
    found = Findings()
    harmless = len(_HARMLESS)
    for number, start, end in _NAME_SEARCH.find_matches_as_indexes(data):
        if number >= harmless:
            found.names.append(Place(start, end))
    for number, start, end in _OTHER_SEARCH.find_matches_as_indexes(data):
        kind = _KIND_OF[number]
        if kind == "nests":
            found.nests = True
        else:
            getattr(found, kind).append(Place(start, end))
    return found
