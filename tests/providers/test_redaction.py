"""No secret survives, in whatever form it comes; nothing else is touched."""

import json
import logging
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.real_stores import STORES
from viewer.providers.redacted_json import redacted_json
from viewer.providers.redaction import MARKER, RedactingFormatter, redact, redact_text, secrecy_of
from viewer.providers.scanning import scan

# Put together here, so that no scanner takes this file itself for a leak.
JWT = ".".join(
    ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"]
)
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7canary7\nq2w3e4r5\n-----END RSA PRIVATE KEY-----"
TOKENS = {
    "openai": "sk-proj-CANARY0123456789abcdef",
    "anthropic": "sk-ant-api03-CANARY0123456789",
    "fake": "sk-fake-ENVSECRET123",
    "aws": "AKIA" + "IOSFODNN7CANARY",
    "github": "ghp_" + "CANARY0123456789abcdefghijkl",
    "github_fine": "github_pat_" + "11CANARY0123456789_abcdefgh",
    "gitlab": "glpat-" + "CANARY0123456789abcd",
    "slack": "xoxb-" + "123456789012-CANARYabcdef",
    "google": "AIza" + "SyCANARY0123456789abcdefghijklmnopq",
    "hugging_face": "hf_" + "CANARYabcdefghijklmnopqrst",
    "stripe": "sk_live_" + "CANARY0123456789abc",
    "groq": "gsk_" + "CANARY0123456789abcdefgh",
    "npm": "npm_" + "CANARY0123456789abcdefghijklmnopqrst",
    "tavily": "tvly-" + "dev-CANARY0123456789ab",
    "nvidia": "nvapi-" + "CANARY0123456789abcdef",
    "xai": "xai-" + "CANARY0123456789abcdef",
    "perplexity": "pplx-" + "CANARY0123456789abcdef",
    "cerebras": "csk-" + "CANARY0123456789abcdef",
    "pinecone": "pcsk_" + "CANARY0123456789abcdef",
    "replicate": "r8_" + "CANARY0123456789abcdef0123456789",
    "notion": "ntn_" + "CANARY0123456789abcdef0123456789",
    "linear": "lin_api_" + "CANARY0123456789abcdef",
    "google_login": "ya29." + "CANARY0123456789abcdef",
    "vault": "hvs." + "CANARY0123456789abcdef",
    "grafana": "glsa_" + "CANARY0123456789abcdef",
    "docker": "dckr_pat_" + "CANARY0123456789abcdef",
    "pypi": "pypi-" + "CANARY0123456789abcdef",
    "stripe_hook": "whsec_" + "CANARY0123456789abcdef",
    "sendgrid": "SG." + "CANARY0123456789abcd.CANARY0123456789abcd",
    "jwt": JWT,
    "pem": PEM,
}
TEXTS = {
    "bearer": ("Authorization: Bearer CANARY0123456789", "CANARY0123456789"),
    "bearer_alone": ("sent bearer CANARY0123456789.", "CANARY0123456789"),
    "basic": ("authorization: Basic Q0FOQVJZOnB3MQ==", "Q0FOQVJZOnB3MQ"),
    "url": ("postgresql://app:CANARYpw1@db.example/x", "CANARYpw1"),
    "url_with_at": ("amqp://guest:CAN@RYpw1@mq", "CAN@RYpw1"),
    "redis": ("redis://:CANARYpw1@cache:6379/0", "CANARYpw1"),
    "assignment": ("export OPENAI_API_KEY=CANARY123", "CANARY123"),
    "query": ("https://x.example/?api_key=CANARY123&page=2", "CANARY123"),
    "header": ("curl -H 'X-API-Key: CANARY-12345'", "CANARY-12345"),
    "python": ("{'password': 'CANARY word', 'a': 1}", "CANARY word"),
    "json_in_text": ('got {"client_secret": "CANARYabc"} back', "CANARYabc"),
    "connection": ("Server=db;User=me;Password=CANARYpw1;", "CANARYpw1"),
    "discord_hook": ("https://discord.com/api/webhooks/123456789012/CANARYabc-d", "CANARYabc-d"),
    "telegram": ("https://api.telegram.org/bot123456789:CANARYabc-d/getMe", "CANARYabc-d"),
    "storage": ("AccountName=x;AccountKey=CANARYabc0==;EndpointSuffix=y", "CANARYabc0"),
    "query_key": ("https://x.example/?key=CANARY0123456789abc&page=2", "CANARY0123456789abc"),
    "signing_key": ('sent {"signing_key": "CANARYabc"} away', "CANARYabc"),
    "short_name": ("DB_PASS=CANARYabc1", "CANARYabc1"),
    "behind_another_name": ("author: password=CANARYabc1", "CANARYabc1"),
    "slack_hook": ("https://hooks.slack.com/services/T0/B0/CANARYabc", "CANARYabc"),
}


def words(text: str) -> list[str]:
    return text.split()


FIELDS = words(
    "api_key apiKey API_KEY X-API-Key OPENAI_API_KEY openaiapikey platform_token token "
    "access_token refreshToken password db_password PASSWORD passwd passphrase secret "
    "client_secret clientSecret aws_secret_access_key Authorization cookie Set-Cookie dsn "
    "credentials private_key connection_string jwt pwd auth bearer SECRET_KEY "
    "DB_PASS smtp_pass GITHUB_PAT api_key_old secret_value access_token_v2 "
)
HARMLESS = words(
    "total_tokens prompt_tokens max_tokens token_usage token_cost_process cached_prompt_tokens "
    "first_pass bypass passed file_path pattern key_path "
    "cache_key task_key keys author authority secretary_name token_type description "
)


def both_ways(value: Any) -> list[str]:
    """The redacted JSON, made from the decoded value and from the bytes, in the engine's layouts."""
    made = [json.dumps(redact(value), ensure_ascii=False)]
    for text in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, indent=2),
    ):
        data = text.encode()
        made.append(json.dumps(json.loads(redacted_json(data, scan(data))), ensure_ascii=False))
    return made


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize(
    "form", ["alone", "in a sentence", "after a colon", "in JSON", "twice in JSON", "as a name"]
)
def test_a_known_kind_of_key_goes_wherever_it_stands(token: str, form: str) -> None:
    value: Any = {
        "alone": {"text": token},
        "in a sentence": {"text": f"I used {token}, and it worked."},
        "after a colon": {"text": f"key:{token}"},
        "in JSON": {"text": json.dumps({"a": [token]})},
        "twice in JSON": {"text": json.dumps({"a": json.dumps({"b": token})})},
        "as a name": {token: 1},
    }[form]
    middle = token[len(token) // 3 : -len(token) // 3 or None][:8]
    for made in both_ways(value):
        assert json.dumps(token)[1:-1] not in made
        assert middle not in made


@pytest.mark.parametrize(("text", "secret"), TEXTS.values(), ids=TEXTS)
def test_a_secret_in_a_text_goes(text: str, secret: str) -> None:
    assert secret not in redact_text(text)
    for made in both_ways({"messages": [{"content": f"first line\n{text}\nlast line"}]}):
        assert secret not in made
        assert "first line" in made and "last line" in made


@pytest.mark.parametrize("name", FIELDS)
def test_the_value_of_a_secret_field_goes_and_so_does_its_echo(name: str) -> None:
    secret = "CANARY value 7"
    value = {
        "llm": {name: secret, "model": "gpt"},
        "messages": [f"I was given {secret} to use"],
        "nested": json.dumps({name: secret}),
    }
    for made in both_ways(value):
        assert "CANARY" not in made
        assert "I was given" in made and '"gpt"' in made


@pytest.mark.parametrize("name", ["default_headers", "credentials", "auth"])
def test_what_stands_below_a_secret_field_goes_too(name: str) -> None:
    for made in both_ways({name: {"x-team": "CANARY-7", "list": ["CANARY-8"]}, "say": "CANARY-7"}):
        assert "CANARY" not in made


@pytest.mark.parametrize("name", HARMLESS)
def test_counters_and_ordinary_names_stay(name: str) -> None:
    for made in both_ways({name: "an ordinary value", "count": {name: 4096}}):
        assert json.loads(made) == {name: "an ordinary value", "count": {name: 4096}}


def test_numbers_stay_under_tokens_and_go_under_passwords() -> None:
    for made in both_ways({"token": 5, "password": 12345678, "secret": True, "api_key": None}):
        assert json.loads(made) == {"token": 5, "password": MARKER, "secret": True, "api_key": None}


def test_a_short_or_ordinary_secret_is_not_cut_out_of_other_texts() -> None:
    for made in both_ways({"password": "research", "text": "research on research"}):
        assert json.loads(made) == {"password": MARKER, "text": "research on research"}


@pytest.mark.parametrize(
    "text",
    [
        "The token: a unit of text. Secrets of the key to success; passwords are out of date.",
        "See task-2024-ABCDEFGHIJ and risk-assessment-2024",
        "http://127.0.0.1:8000/v1 and mailto:someone@example.org",
        "total_tokens=60, prompt_tokens: 30",
        "author: Bearer of good news",
    ],
)
def test_prose_stays(text: str) -> None:
    assert redact_text(text) == text
    for made in both_ways({"text": text}):
        assert json.loads(made) == {"text": text}


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"\u0061pi_key": "CANARY-77"}',
        rb'{"api_key" : "CANARY-77"}',
        rb'{"api_key":' + b"\n\t" + rb'"CANARY-77"}',
        rb'{"api_key": "CANARY-\"77\""}',
        rb'{"a": "\u0073k-CANARY0123456789"}',
        rb'{"a": "https:\/\/me:CANARYpw@host\/x"}',
        rb'{"api_key": ["CANARY-77"]}',
        rb'{"api_key": "CANARY-\u00e9-77", "b": "CANARY-\u00e9-77"}',
        rb'{"a": "{\"api_key\": \"CANARY-77\"}"}',
        rb'{"a": "x \\\"password\\\": \\\"CANARY-77\\\" y"}',
        rb'{"headers": {"k": "CANARY-77"}, "emoji": "\ud83d\ude00"}',
    ],
)
def test_escapes_and_odd_layouts_hide_nothing(raw: bytes) -> None:
    assert b"CANARY" not in redacted_json(raw, scan(raw))


def test_an_echo_beside_a_key_hides_the_key_no_more() -> None:
    token = TOKENS["stripe"]
    for made in both_ways({"api_key": "CANARY value 7", "text": f"CANARY value 7{token}"}):
        assert "CANARY" not in made


def test_emojis_and_accents_come_through_unharmed() -> None:
    value = {"text": "déjà vu 😀 日本", "api_key": "CANARY-77"}
    for made in both_ways(value):
        assert json.loads(made) == {"text": "déjà vu 😀 日本", "api_key": MARKER}


def test_redacting_twice_changes_nothing_more() -> None:
    value = {"api_key": "CANARY-77", "text": "password=CANARYpw1 " + " ".join(TOKENS.values())}
    once = redact(value)
    assert redact(once) == once


@pytest.mark.parametrize(
    "piece", ["a", "sk-", "eyJ", "a:", "-----BEGIN ", "api_key", "x://", "_", '"', "key=", "[[", '{"']
)
def test_hostile_repetition_is_not_slow(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    started = time.monotonic()
    redact({"text": text})
    assert time.monotonic() - started < 10


def test_names_are_told_apart_by_their_words() -> None:
    assert secrecy_of("accessKey") == secrecy_of("ACCESS_KEY_2") == "soft"
    assert secrecy_of("monkey") == ""
    assert secrecy_of("keyboard") == ""
    assert secrecy_of("tokenizer") == ""


SCRAPS = ["CANARY-77/x", "CANARY value 7", "plain words", "key", "é", "😀", *"\\\"\n/:=' {1"]


def test_cutting_the_bytes_gives_what_redacting_the_values_gives() -> None:
    chance = random.Random(7)
    pieces = [*TOKENS.values(), *(text for text, _ in TEXTS.values()), *FIELDS, *HARMLESS, *SCRAPS]

    def text() -> str:
        return "".join(chance.choice(pieces) for _ in range(chance.randint(0, 4)))

    def value(depth: int) -> Any:
        kind = chance.random()
        if depth and kind < 0.4:
            return {
                chance.choice([*FIELDS, *HARMLESS, text()]): value(depth - 1)
                for _ in range(chance.randint(0, 4))
            }
        if depth and kind < 0.5:
            return [value(depth - 1) for _ in range(chance.randint(0, 3))]
        if kind < 0.6:
            return chance.choice([None, True, 0, 17, 12345678, 1.5])
        if kind < 0.7:
            return json.dumps(value(depth and depth - 1))
        return text()

    for _ in range(1500):
        document = {
            "entities": value(4),
            "api_key": chance.choice(["CANARY-77/x", "CANARY value 7", None, ""]),
        }
        exact, *cut = both_ways(document)
        for made in cut:
            assert json.loads(made) == json.loads(exact), document


@pytest.mark.parametrize("path", sorted(STORES.rglob("*.json")), ids=lambda path: path.stem)
def test_real_checkpoints_lose_their_keys_and_nothing_else(path: Path) -> None:
    value = json.loads(path.read_text())
    for made in both_ways(value):
        assert re.search(r"sk-(fake|inline)", made) is None
    changed = [
        (before, after)
        for before, after in zip(texts_in(value), texts_in(redact(value)), strict=True)
        if before != after
    ]
    assert all(re.search(r"sk-(fake|inline)", before) and after == MARKER for before, after in changed)


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a value, in order."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, str):
        yield value


def test_the_servers_log_quotes_no_secret() -> None:
    assert "viewer.providers.redaction.RedactingFormatter" in str(settings.LOGGING)
    try:
        raise ValueError(f"cannot read {TOKENS['openai']}")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "at %s", (TEXTS["url"][0],), sys.exc_info())
    line = RedactingFormatter("%(name)s: %(message)s").format(record)
    assert "CANARY" not in line and "ValueError" in line and line.startswith("x: at ")
