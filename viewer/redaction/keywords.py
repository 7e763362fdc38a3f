"""Keywords: short texts, in several languages, without which no rule can find anything."""

import base64
import json
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Literal

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from viewer.redaction.patterns import OBSCURED_KEYWORDS, words
from viewer.redaction.vendor_tokens import AMBIGUOUS, ANCHORS, BEFORE_WORDS, labels, prefixes

# Labels of secrets in other languages than English, with the secrecy that each implies.
#
# Labels are in lower case, with a space between words. In names, hyphens or underscores may be there instead.


_PASSWORDS = (
    # German, Dutch and the languages of the north
    *("passwort", "kennwort", "zugangsdaten", "wachtwoord", "adgangskode", "lösenord"),
    *("losenord", "passord", "salasana", "lykilorð", "parool"),
    # French, Spanish, Portuguese, Italian, Catalan and Romanian
    *("mot de passe", "motdepasse", "mots de passe", "contraseña", "contrasena", "contrasenya"),
    *("clave de acceso", "clave secreta", "clau d'accés", "senha", "palavra-passe", "palavra passe"),
    *("parola d'ordine", "parolă", "codigo de acesso", "código de acceso"),
    # Polish, Czech, Hungarian, Turkish, Vietnamese and Indonesian
    *("hasło", "haslo", "heslo", "jelszó", "lozinka", "geslo", "şifre", "sifre"),
    *("mật khẩu", "kata sandi"),
    # Russian, Ukrainian, Bulgarian and Greek
    *("пароль", "парола"),
    *("κωδικός", "συνθηματικό"),
    # Chinese, Japanese and Korean
    *("密码", "密碼", "口令", "暗証番号", "合言葉"),
    *("パスワード", "パスフレーズ", "비밀번호"),
    *("암호", "패스워드"),
    # Arabic, Hebrew, Hindi and Thai
    *("كلمة المرور", "סיסמה"),
    *("पासवर्ड", "รหัสผ่าน"),
)
_KEYS = (
    # German, Dutch and the languages of the north
    *("schlüssel", "schluessel", "geheimnis", "zugangstoken", "sleutel", "nyckel", "nøgle", "avain"),
    # French, Spanish, Portuguese, Italian
    *("clé", "clé api", "clé secrète", "clef", "jeton", "jeton d'accès"),
    *("secrète", "clave", "clave api", "llave", "secreto", "ficha de acceso", "chave", "chave de api"),
    *("segredo", "parola", "chiave", "chiave api", "segreto", "gettone"),
    # Polish, Czech, Turkish, Russian and Ukrainian
    *("klucz", "klíč", "anahtar\N{LATIN SMALL LETTER DOTLESS I}", "ключ", "токен"),
    *("секрет",),
    # Chinese, Japanese and Korean
    *("密钥", "密鑰", "秘钥", "私钥", "金鑰", "令牌", "凭证"),
    *("凭据", "憑證", "秘密鍵", "秘密の鍵", "トークン"),
    *("アクセスキー", "シークレット", "apiキー", "api キー"),
    *("토큰", "비밀키", "비밀 키", "api 키", "api키", "인증키", "시크릿"),
)
FOREIGN_LABELS: dict[str, Literal["hard", "made"]] = {
    **dict.fromkeys(_KEYS, "made"),
    **dict.fromkeys(_PASSWORDS, "hard"),
}


# Keywords: short texts without which no rule can find anything, so that most of a document is skipped.
#
# ``json.scan`` searches whole documents for them, and a text without one is not redacted either, so that both
# agree. The words of names are searched in three forms: secret, Secret, SECRET.


def cased(*texts: str) -> tuple[str, ...]:
    """Return each text in lower case, with a capital, and in capitals."""
    return tuple(way for text in texts for way in (text, text[:1].upper() + text[1:], text.upper()))


# Services whose addresses may contain a password: db_url, REDIS_URI.
ADDRESS_WORDS = words(
    "db database mongo mongodb redis postgres postgresql pg mysql mariadb amqp rabbitmq broker celery"
    " sqlalchemy jdbc odbc smtp ldap cache backend conn connection hook callback neo4j influx influxdb"
    " clickhouse kafka mssql sqlserver cockroach cockroachdb supabase snowflake storage"
)
# Words that make a name that of a secret, wherever they occur in it.
_WORDS = (
    *("secret", "passw", "passphr", "passcode", "pwd", "authoriz", "cookie", "credential", "creds", "dsn"),
    *("bearer", "jwt", "sessionid", "sessid", "webhook", "kubeconfig", "pswd"),
)
SECRET_WORDS = (
    *cased(*_WORDS),
    *("Connection_String", "connection_string", "CONNECTION_STRING", "connectionString", "ConnectionString"),
    *("conn_str", "CONN_STR", "connStr", "ConnStr", "connstr"),
    *("connectionstring", "connection string", "Connection string", "mnemonic", "MNEMONIC", "seed phrase"),
    "seed_phrase",
)
# Frequent words count only with what may follow the end of a name. In capitals they are rare.
ENDS = "\"\\=:' _-`*>|,;"
_RARER_ENDS = "\"\\=:'"
# The last words of names. Without their first letter, they are also found with a capital.
_ENDINGS = (
    "pw",
    "PW",
    "pin",
    "PIN",
    "Pin",
    "ession",
    "ESSION",
    "ignature",
    "IGNATURE",
    "hmac",
    "HMAC",
    "Hmac",
)
_ADDRESS_ENDS = ("_url", "_uri", "Url", "Uri", "url", "uri")
_RARE_ENDINGS = (
    *(
        "psk",
        "PSK",
        "pass",
        "PASS",
        "csrf",
        "CSRF",
        "pins",
        "cvv",
        "CVV",
        "cvc",
        "CVC",
        "puk",
        "PUK",
        "salt",
        "SALT",
        "pepper",
        "PEPPER",
        "seed",
        "SEED",
        "sas",
    ),
    *("SAS", "sig", "SIG", "_code", "Code", "CODE", " code", "-code", "codes", "CODES", "covery_key"),
)
WORDS_WITH_ENDS = (
    *(word + end for word in ADDRESS_WORDS for end in _ADDRESS_ENDS),
    *((word + end).upper() for word in ADDRESS_WORDS for end in ("_url", "_uri")),
    *(word + end for word in ("key", "token") for end in ENDS),
    *(word + end for word in (*cased("auth"), *cased("otp"), *_ENDINGS) for end in _RARER_ENDS),
    *(word + end for word in _RARE_ENDINGS for end in '"=:'),
    *("Key", "KEY", "Token", "TOKEN", "key<", "api_keys", "apikeys", "api-keys"),
    *("_pass", "_PASS", "_Pass", "-pass", "_pat", "_PAT", " code is "),
    *("access_tokens", "refresh_tokens", "auth_tokens", "api_tokens", "otp_", "OTP_"),
    *('headers"', "headers\\", 'Headers"', "Headers\\", "HEADERS", "authHeader", "AuthHeader", "auth_header"),
    *("AUTH_HEADER", "auth-header", "Auth-Header", "ecureString", "ecure_string"),
    # Fields that mark the value of another one as secret.
    *(word + end for word in ("ensitive", "asked", "onfidential") for end in "\"\\'"),
)
# Keywords of the rules for private keys, URLs, credentials and pairs.
_OTHER_KEYWORDS = words(
    "$2a$ $2b$ $2y$ $6$ $5$ $1$ $y$ $apr1$ $argon2 :// :/\\ :\\/ :\\\\ sig="
    " Sig= ignature= -Credential= -Token= -token= KeyId= hooks. /webhooks/ /webhookb2/ telegram.org"
    " googleapis ifttt weixin.qq open.feishu webhook.site piKey enieKey --user --auth --proxy-user"
    " sshpass ssh-keygen LS0tLS1CRUdJTiB .login( mysql redis-cli :543 :6432: :*: {SHA} {SSHA} dentified"
    " DENTIFIED sexec SEXEC sExec sqlplus sqlldr expdp impdp userid= :1521"
    " (DESCRIPTION racle @db @DB @orcl @ORCL @xe @XE"
)
# Encoded texts, as ``known_secrets`` decodes them: documents, texts with one of these words, and texts that
# begin like a token or an address. The prefix of a JWT is another one.
_DOCUMENT_STARTS = words("eyJ ewog ewoJ ewoi ew0K W3si WyI H4sI")
_ENCODED_WORDS = (
    *cased("password", "passwd", "secret", "api_key", "api-key", "apikey", "token", "bearer", "credential"),
    *cased("authoriz"),
    *("apiKey", "PRIVATE KEY"),
)
_ENCODED_STARTS = words(
    "sk- sk_live_ ghp_ github_pat_ glpat- xoxb- xoxp- hf_ gsk_ npm_ pypi- AKIA ASIA AIza"
    " postgres mysql: mongodb redis: rediss: amqp:"
)
# The address of the second line of a dump.
_SECOND_ADDRESS = "0000010"
# What separates bytes in hexadecimal digits: 73 6b, 73:6B, 73-6b, 0x73, 0x6b.
_BYTE_SEPARATORS = (" ", ":", "-", ", 0x")


def base64_forms(data: bytes, offset: int) -> Iterator[str]:
    """Yield the Base64 characters that are the same whatever precedes and follows these bytes."""
    first = (offset * 8 + 5) // 6
    last = (offset + len(data)) * 8 // 6
    text = base64.b64encode(bytes(offset) + data).decode()[first:last]
    yield text
    yield text.replace("+", "-").replace("/", "_")


def _base32_form(data: bytes, offset: int) -> str:
    """Return the Base32 characters that are the same whatever precedes and follows these bytes."""
    return base64.b32encode(bytes(offset) + data).decode()[
        (offset * 8 + 4) // 5 : (offset + len(data)) * 8 // 5
    ]


def encoded_forms(data: bytes, *, is_start: bool = False) -> Iterator[str]:
    """Yield the forms of bytes inside an encoded text, or only at its start.

    In Base64 once and twice, in Base32 and in hexadecimal digits of lower case.
    """
    for offset in range(1 if is_start else 3):
        for form in base64_forms(data, offset):
            yield form
            for outer in range(3):
                yield from base64_forms(form.encode(), outer)
    for offset in range(1 if is_start else 5):
        yield _base32_form(data, offset)
    yield data.hex()


def separated_forms(data: bytes) -> Iterator[str]:
    """Yield the hexadecimal digits of bytes, in lower case, as dumps have them: one by one, or in pairs."""
    yield from (separator.join(f"{byte:02x}" for byte in data) for separator in _BYTE_SEPARATORS)
    yield from (f"{data[:skipped].hex()} {data[skipped:].hex(' ', -2)}".strip() for skipped in (0, 1))


def _encoded_keywords(text: str, *, is_start: bool) -> Iterator[str]:
    data = text.encode()
    yield from encoded_forms(data, is_start=is_start)
    yield data.hex().upper()
    for form in separated_forms(data[:3]):
        yield from (form, form.upper().replace("X", "x"))


ENCODED_KEYWORDS = frozenset(
    [
        _SECOND_ADDRESS,
        *_DOCUMENT_STARTS,
        *(
            form
            for start in _DOCUMENT_STARTS
            for outer in range(3)
            for form in base64_forms(start.encode(), outer)
        ),
        *(form for word in _ENCODED_WORDS for form in _encoded_keywords(word, is_start=False)),
        *(form for start in _ENCODED_STARTS for form in _encoded_keywords(start, is_start=True)),
    ]
)
# The fields and types of ``streamed_parts``: delta, AIMessageChunk.
STREAMED_KEYWORDS = ('elta"', 'hunk"', "elta\\", "hunk\\")
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
    " sq0c PMAK PMAT CCIP HRKU glrt- secret_ sk- AIK_ _oat_ packagist_ dvc_ api_live"
)


def keywords() -> list[str]:
    """Return all keywords, as they are written in JSON."""
    unambiguous = [prefix for prefix in prefixes() if prefix not in AMBIGUOUS]
    starts = [prefix for prefix in unambiguous if not any(part in prefix for part in _COMMON_PARTS)]
    at_starts = [before + prefix for prefix in AMBIGUOUS & {*prefixes()} for before in _BEFORE_WORDS]
    others = {
        *starts,
        *ENCODED_KEYWORDS,
        *_COMMON_PARTS,
        *_OTHER_KEYWORDS,
        *_SPACED_KEYWORDS,
        *STREAMED_KEYWORDS,
        *ANCHORS,
        *at_starts,
    }
    unconditional = {word[1:] if word[0].isalpha() and len(word) > 4 else word for word in SECRET_WORDS}
    foreign = {form for label in FOREIGN_LABELS for form in _forms_of_label(label)}
    return _without_longer(
        [*cased(*labels()), *unconditional, *WORDS_WITH_ENDS, *others, *foreign, *OBSCURED_KEYWORDS]
    )


# How JSON writes the bytes before words. A quote may also be the one at which the text begins.
_BEFORE_WORDS = [json.dumps(chr(byte))[1:-1].replace('\\"', '"') for byte in BEFORE_WORDS]


def _forms_of_label(label: str) -> list[str]:
    """Return what a label of another language contains in any notation."""
    parts = label.replace("-", " ").replace("'", " ").replace("api", " ").split()
    longest = max(parts, key=len)
    if longest.isascii():
        return [longest, longest.upper()] if len(longest) < 5 else [longest[1:], longest.upper()]
    found = []
    for form in (longest, longest.upper(), longest.capitalize()):
        # Of a label in another script, the first letter is enough where it is escaped.
        before, _, code = json.dumps(form)[1:-1].partition("\\u")
        found += [form, f"{before}\\u{code[:4]}", f"{before}\\u{code[:4].upper()}"]
    return found


def _without_longer(found: list[str]) -> list[str]:
    """Return the keywords that contain no other keyword."""
    distinct = {word: _encoded(word) for word in sorted(set(found), key=lambda word: (len(word), word))}
    search = BytesAhoCorasick(distinct.values())
    return [
        word
        for word, encoded in distinct.items()
        if len(search.find_matches_as_indexes(encoded, overlapping=True)) == 1
    ]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class KeywordSearch:
    """A search for all of these keywords in one pass, however many they are."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._encoded = sorted({_encoded(text) for text in texts})

    # Built when needed: that takes longer than most imports of modules.

    @cached_property
    def _any(self) -> BytesAhoCorasick:
        return _automaton(self._encoded)

    @cached_property
    def _ascii(self) -> BytesAhoCorasick:
        """A fifth faster than the other."""
        return _automaton([word for word in self._encoded if word.isascii()])

    def positions(self, data: bytes) -> set[int]:
        """Return the positions of all keywords."""
        search = self._ascii if data.isascii() else self._any
        return {start for _, start, _ in search.find_matches_as_indexes(data, overlapping=True)}

    def is_in(self, data: bytes) -> bool:
        """Return whether the text contains any of the keywords."""
        search = self._ascii if data.isascii() else self._any
        if search.find_matches_as_indexes(data[:_BEGINNING]):
            return True
        return len(data) > _BEGINNING and bool(search.find_matches_as_indexes(data))


# Most long texts that contain a keyword have one near their beginning.
_BEGINNING = 1024


def _automaton(encoded: list[bytes]) -> BytesAhoCorasick:
    return BytesAhoCorasick(encoded, matchkind=MatchKind.Standard, implementation=Implementation.DFA)


@lru_cache(maxsize=1)
def _text_search() -> KeywordSearch:
    """Return a search for the keywords in a decoded text, in which line breaks are not escaped."""
    found = keywords()
    escaped = [word[:-1] + blank for word in found if word.endswith("\\") for blank in "\n\r\t"]
    escaped += [word[2:] for word in found if word.startswith(("\\n", "\\r", "\\t"))]
    return KeywordSearch([*found, *escaped])


def may_hold_secret(data: bytes) -> bool:
    """Return whether any rule could find anything in this UTF-8 text."""
    return _text_search().is_in(data)
