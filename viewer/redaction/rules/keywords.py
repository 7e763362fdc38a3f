"""Short texts without which no rule can find anything, so that most of a document need not be looked at.

`scanning` looks for them in whole documents, and no text without one is judged: so both agree.
A name's telling words count in the three ways in which they are written: secret, Secret, SECRET.
"""

from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction.patterns import words
from viewer.redaction.rules.vendor_tokens import prefixes


def cased(*texts: str) -> tuple[str, ...]:
    """Each in lower case, with a capital, and in capitals."""
    return tuple(way for text in texts for way in (text, text[:1].upper() + text[1:], text.upper()))


# Words that tell of a secret wherever they stand in a name.
_TELLING = (
    *("secret", "passw", "passphr", "passcode", "pwd", "authoriz", "cookie", "credential", "creds", "dsn"),
    *("bearer", "jwt", "sessionid", "sessid", "kennwort"),
)
TELLING = (
    *cased(*_TELLING),
    *("Connection_String", "connection_string", "CONNECTION_STRING", "connectionString", "ConnectionString"),
    *("connectionstring", "connection string", "Connection string", "mnemonic", "MNEMONIC", "seed phrase"),
    *("seed_phrase", "verification code", "Verification code", "verification_code", "mfa_code", "2fa_code"),
)
# Frequent words: only what may end a name counts, as it stands behind them. In capitals they are rare.
ENDS = "\"\\=:' _-`*>"
_RARER_ENDS = "\"\\=:'"
FOLLOWED = (
    *(word + end for word in ("key", "token") for end in ENDS),
    *(word + end for word in (*cased("auth"), *cased("otp"), "_pat", "_PAT") for end in _RARER_ENDS),
    *(
        "Key",
        "KEY",
        "Token",
        "TOKEN",
        "key<",
        "api_keys",
        "apikeys",
        "api-keys",
        "_pass",
        "_PASS",
        "_Pass",
        "-pass",
    ),
    *("access_tokens", "refresh_tokens", "auth_tokens", "api_tokens", "otp_", "OTP_", "_pat ", "_PAT "),
    *('headers"', "headers\\", 'Headers"', "Headers\\", "HEADERS", "authHeader", "AuthHeader", "auth_header"),
    *("AUTH_HEADER", "auth-header", "Auth-Header"),
)
# What the rules for tokens, blocks, addresses and credentials look for, but for what tokens begin with.
_OTHER_SIGNS = words(
    ":AA .atlasv1. -us1 -us2 $2a$ $2b$ $2y$ $6$ $apr1$ $argon2 iscord wilio :// :/\\ :\\/ :\\\\ sig="
    " Sig= ignature= -Credential= -Token= -token= KeyId= hooks. /webhooks/ /webhookb2/ telegram.org"
    " googleapis ifttt weixin.qq open.feishu webhook.site piKey enieKey --user --auth --proxy-user"
    " sshpass .login( mysql redis-cli :543 :6432: :*: {SHA} dentified DENTIFIED AKIA ASIA ABIA ACCA eyJ"
)
_SPACED_SIGNS = (
    "PRIVATE KEY",
    "PuTTY-User",
    "asic ",
    "ASIC ",
    "Bot ",
    "SSWS ",
    "plunk ",
    " -u ",
    " -a ",
    "docker login",
)
# Shorter texts that many tokens' beginnings have in common.
_COMMON_STARTS = words(
    "xox pat_ _v1_ _live_ k_test_ _prod_ lsv2_ pscale_ sntry shpa shpc shpp shps polar_ _api_ sq0a"
    " sq0c PMAK PMAT CCIP HRKU glrt- secret_ sk- AIK_ _oat_"
)
# Beginnings that stand in many words: what follows them has a sign of its own.
_AMBIGUOUS = ("sk_", "rk_")
# A search for more at once is many times slower.
_MAX_SIGNS = 64


def signs() -> list[str]:
    """Every sign, as it is written in JSON."""
    starts = [prefix for prefix in prefixes() if prefix not in _AMBIGUOUS]
    starts = [prefix for prefix in starts if not any(start in prefix for start in _COMMON_STARTS)]
    others = {*starts, *_COMMON_STARTS, *_OTHER_SIGNS, *_SPACED_SIGNS}
    unconditional = {word[1:] if word[0].isalpha() and len(word) > 4 else word for word in TELLING}
    return [*sorted(unconditional), *FOLLOWED, *sorted(others - set(FOLLOWED))]


def searches(texts: list[str]) -> list[BytesAhoCorasick]:
    """Searches for these texts, as many at once as are fast. The shortest are looked for by themselves."""
    encoded = sorted({text.encode() for text in texts}, key=lambda text: (min(len(text), 5), text))
    return [
        BytesAhoCorasick(encoded[at : at + _MAX_SIGNS], matchkind=MatchKind.LeftmostFirst)
        for at in range(0, len(encoded), _MAX_SIGNS)
    ]


@lru_cache(maxsize=1)
def _text_searches() -> list[BytesAhoCorasick]:
    """The same for a decoded text, in which breaks of lines are not escaped."""
    escaped = [sign[:-1] + blank for sign in signs() if sign.endswith("\\") for blank in "\n\r\t"]
    return searches([*signs(), *escaped])


def may_hold_secret(data: bytes) -> bool:
    """Whether any rule could find anything in this UTF-8 text."""
    return any(search.find_matches_as_indexes(data) for search in _text_searches())
