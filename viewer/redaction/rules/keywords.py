"""Keywords: short texts without which no rule can find anything, so that most of a document is skipped.

``json.scan`` searches whole documents for them, and a text without one is not redacted either, so that both
agree. The words of names are searched in three forms: secret, Secret, SECRET.
"""

from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction.patterns import words
from viewer.redaction.rules.vendor_tokens import prefixes


def cased(*texts: str) -> tuple[str, ...]:
    """Return each text in lower case, with a capital, and in capitals."""
    return tuple(way for text in texts for way in (text, text[:1].upper() + text[1:], text.upper()))


# Words that make a name that of a secret, wherever they occur in it.
_WORDS = (
    *("secret", "passw", "passphr", "passcode", "pwd", "authoriz", "cookie", "credential", "creds", "dsn"),
    *("bearer", "jwt", "sessionid", "sessid", "kennwort"),
)
SECRET_WORDS = (
    *cased(*_WORDS),
    *("Connection_String", "connection_string", "CONNECTION_STRING", "connectionString", "ConnectionString"),
    *("connectionstring", "connection string", "Connection string", "mnemonic", "MNEMONIC", "seed phrase"),
    *("seed_phrase", "verification code", "Verification code", "verification_code", "mfa_code", "2fa_code"),
)
# Frequent words count only with what may follow the end of a name. In capitals they are rare.
ENDS = "\"\\=:' _-`*>"
_RARER_ENDS = "\"\\=:'"
WORDS_WITH_ENDS = (
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
# Keywords of the rules for tokens, private keys, URLs and credentials, except the prefixes of tokens.
_OTHER_KEYWORDS = words(
    ":AA .atlasv1. -us1 -us2 $2a$ $2b$ $2y$ $6$ $apr1$ $argon2 iscord wilio :// :/\\ :\\/ :\\\\ sig="
    " Sig= ignature= -Credential= -Token= -token= KeyId= hooks. /webhooks/ /webhookb2/ telegram.org"
    " googleapis ifttt weixin.qq open.feishu webhook.site piKey enieKey --user --auth --proxy-user"
    " sshpass .login( mysql redis-cli :543 :6432: :*: {SHA} dentified DENTIFIED AKIA ASIA ABIA ACCA eyJ"
)
_SPACED_KEYWORDS = (
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
# Shorter texts that the prefixes of many tokens contain.
_COMMON_PARTS = words(
    "xox pat_ _v1_ _live_ k_test_ _prod_ lsv2_ pscale_ sntry shpa shpc shpp shps polar_ _api_ sq0a"
    " sq0c PMAK PMAT CCIP HRKU glrt- secret_ sk- AIK_ _oat_"
)
# Prefixes that occur in many words. What follows them has another keyword.
_AMBIGUOUS = ("sk_", "rk_")
# One search for more keywords is many times slower.
_MAX_KEYWORDS = 64


def keywords() -> list[str]:
    """Return all keywords, as they are written in JSON."""
    unambiguous = [prefix for prefix in prefixes() if prefix not in _AMBIGUOUS]
    starts = [prefix for prefix in unambiguous if not any(part in prefix for part in _COMMON_PARTS)]
    others = {*starts, *_COMMON_PARTS, *_OTHER_KEYWORDS, *_SPACED_KEYWORDS}
    unconditional = {word[1:] if word[0].isalpha() and len(word) > 4 else word for word in SECRET_WORDS}
    return [*sorted(unconditional), *WORDS_WITH_ENDS, *sorted(others - set(WORDS_WITH_ENDS))]


def searches(texts: list[str]) -> list[BytesAhoCorasick]:
    """Return searches for these texts, shortest texts first, each for as many as it finds quickly."""
    encoded = sorted({text.encode() for text in texts}, key=lambda text: (min(len(text), 5), text))
    return [
        BytesAhoCorasick(encoded[at : at + _MAX_KEYWORDS], matchkind=MatchKind.LeftmostFirst)
        for at in range(0, len(encoded), _MAX_KEYWORDS)
    ]


@lru_cache(maxsize=1)
def _text_searches() -> list[BytesAhoCorasick]:
    """Return searches for the keywords in a decoded text, in which line breaks are not escaped."""
    escaped = [word[:-1] + blank for word in keywords() if word.endswith("\\") for blank in "\n\r\t"]
    return searches([*keywords(), *escaped])


def may_hold_secret(data: bytes) -> bool:
    """Return whether any rule could find anything in this UTF-8 text."""
    return any(search.find_matches_as_indexes(data) for search in _text_searches())
