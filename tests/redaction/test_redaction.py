"""Secrets are redacted in every form, and nothing else is."""

import base64
import gzip
import json
import logging
import random
import re
import string
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from checkpoint_site.logs import JsonFormatter, PlainFormatter
from tests.real_stores import STORES
from tests.redaction.canaries import FIELDS, HARMLESS, JWT, PEM, TEXTS, TOKENS, both_ways
from viewer.engines.crewai.store_format import STORE_FORMAT
from viewer.host.reading.snapshots import snapshot_of
from viewer.redaction import MARKER, rules_digest
from viewer.redaction.known_secrets import known_secrets, redact_text
from viewer.redaction.names import secrecy_of
from viewer.redaction.patterns import compiled
from viewer.redaction.values import redact, redacted_json, scan
from viewer.redaction.vendor_tokens import rules
from viewer.stores.protocol import Entry, RawCheckpoint, ReadLimits, RecordedIds


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize(
    "form", ["alone", "in a sentence", "after a colon", "in JSON", "twice in JSON", "as a name"]
)
def test_vendor_tokens_are_redacted_everywhere(token: str, form: str) -> None:
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


def test_every_vendor_pattern_compiles() -> None:
    assert all(compiled(pattern) for patterns in rules().values() for pattern in patterns)


@pytest.mark.parametrize(("text", "secret"), TEXTS.values(), ids=TEXTS)
def test_a_secret_in_a_text_is_redacted(text: str, secret: str) -> None:
    assert secret not in redact_text(text)
    for made in both_ways({"messages": [{"content": f"first line\n{text}\nlast line"}]}):
        assert secret not in made
        assert "first line" in made and "last line" in made


@pytest.mark.parametrize("name", FIELDS)
def test_the_value_of_a_secret_field_is_redacted_wherever_it_is_repeated(name: str) -> None:
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
def test_values_below_a_secret_field_are_redacted(name: str) -> None:
    for made in both_ways({name: {"x-team": "CANARY-7", "list": ["CANARY-8"]}, "say": "CANARY-7"}):
        assert "CANARY" not in made


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[32mpassword\x1b[0m=\x1b[1mKanarie7vogel\x1b[0m",
        "password: Kanarie\x1b[0m\x1b[33m7vogel",
        "pass\u200bword: Kanarie7vogel",
        "password: Kana\u2060rie7\u00advogel",
        "\u200b".join("password=Kanarie7vogel"),
        "token: Kanarie7\ufeffvogel19 and more",
        '{"pass\\u200bword": "Kanarie7vogel"}',
    ],
)
def test_characters_that_are_not_seen_hide_no_secret(text: str) -> None:
    for made in (redact_text(text), *both_ways({"text": text}), *both_ways({"text": json.dumps(text)})):
        assert not re.search(r"kanarie|vogel", re.sub("[\u200b\u2060\u00ad\ufeff]", "", made).lower())


@pytest.mark.parametrize(
    "name",
    [
        *(
            "\N{CYRILLIC SMALL LETTER ER}assword",
            "p\N{CYRILLIC SMALL LETTER A}ssw\N{GREEK SMALL LETTER OMICRON}rd",
        ),
        *(
            "PASSW\N{CYRILLIC CAPITAL LETTER O}RD",
            "api_\N{CYRILLIC SMALL LETTER KA}ey",
            "\uff41\uff50\uff49\uff3fkey",
        ),
        *(
            "\uff33\uff25\uff23\uff32\uff25\uff34",
            "\U0001d429\U0001d41a\U0001d42c\U0001d42cword",
            "\u24e2ecret",
        ),
        # Without any letter of ASCII.
        *("раѕѕԝогԁ", "Ѕесгет", "АРІ_КЕУ", "соокіе", "ΑΡΙΚΕΥ"),  # noqa: RUF001
    ],
)
def test_letters_that_look_like_others_hide_no_name_of_a_secret(name: str) -> None:
    for value in ({name: "Kanarie7vogel"}, f"the {name}: Kanarie7vogel", f"{name}=Kanarie7vogel"):
        for made in both_ways({"first": "x", "in": value, "then": "more"}):
            assert "Kanarie" not in made and "more" in made


def test_words_of_other_scripts_are_shown() -> None:
    for text in ("рост успеха: Москва-2024", "Тест: А1-рост", "кеу хоккея: А1-рост", "Δα-helix: a1b2c3d4"):  # noqa: RUF001
        for made in both_ways({"text": text, text: "Kanarie7vogel"}):
            assert json.loads(made) == {"text": text, text: "Kanarie7vogel"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "pw",
            "pin",
            "webhook",
            "session",
            "signature",
            "access_code",
            "db_uri",
            "psk",
            "csrf_token",
            "salt",
        ),
        *(
            "conn_str",
            "client-key-data",
            "hmac_key",
            "backup_codes",
            "sessionToken",
            "REDIS_URL",
            "door_code",
        ),
        *("mot_de_passe", "contraseña", "Passwort", "密码", "datadog_app"),
    ],
)
def test_random_values_of_fields_that_may_be_secret_are_redacted(name: str) -> None:
    for made in both_ways({name: "k9Vt3Qw8Zr1Lm5Xc7Bn2", "then": "more"}):
        assert json.loads(made) == {name: MARKER, "then": "more"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", "Morning yoga"),
        ("signature", "def f(x: int) -> str"),
        ("pin", 17),
        ("seed", 42),
        ("webhook", "https://example.com/hooks"),
        ("db_uri", "sqlite:///data/app.db"),
        ("page_token", "CAUQAA"),
        ("song_key", "C# minor"),
        ("cookie", "200 g flour, 100 g sugar, 1 egg; bake 12 min at 180C"),
        ("headers", {"Content-Type": "application/json"}),
        ("status_code", 4040),
        ("datadog", "mixtral-8x7b-instruct-v0.1"),
        ("sentry_release", "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"),
    ],
)
def test_ordinary_values_of_such_fields_are_not(name: str, value: Any) -> None:
    for made in both_ways({name: value}):
        assert json.loads(made) == {name: value}


@pytest.mark.parametrize(
    "text",
    [
        "MYS3CRETVALUE-XYZ9",
        "mys3cretvalue-xyz9",
        "MyS3cret\x1b[32mValue-xyz9",
        "MYS3CRET\x1b[1m\x1b[33mVALUE\x1b[0m-XYZ9",
        "MyS3cret\x1b[0m\n\x1b[31mValue-xyz9",
        "\u2502 MyS3cretVal \u2502\n\u2502 ue-xyz9     \u2502",
        "MyS3cret\\u001b[0mValue-xyz9",
        "My\u200bS3cretValue-xyz9",
    ],
)
def test_a_known_secret_is_found_in_any_case_and_with_colours(text: str) -> None:
    known = known_secrets(("MyS3cretValue-xyz9",))
    data = json.dumps({"text": text}).encode()
    for made in (
        redact_text(f"it printed {text} and ended", known),
        json.dumps(redact({"text": text}, known)),
        redacted_json(data, scan(data), known).decode(),
    ):
        assert MARKER in made and "xyz9" not in made.lower() and "s3cret" not in made.lower()


def test_a_known_secret_is_found_in_other_encodings() -> None:
    secret = "MyS3cretValue-xyz9"
    known, data = known_secrets((secret,)), f"x={secret}".encode()
    for text in (
        base64.b64encode(base64.b64encode(data)).decode(),
        base64.b32encode(data).decode(),
        data.hex(),
        data.hex(":").upper(),
        data.hex(" ", -2),
        data.hex(" ", 2),
        ", ".join(f"0x{byte:02x}" for byte in data),
    ):
        document = json.dumps({"text": text}).encode()
        for made in (
            redact_text(f"it printed {text} and ended", known),
            redacted_json(document, scan(document), known).decode(),
        ):
            assert MARKER in made and text[16:32] not in made


@pytest.mark.parametrize("name", HARMLESS)
def test_counters_and_ordinary_names_are_not_redacted(name: str) -> None:
    for made in both_ways({name: "an ordinary value", "count": {name: 4096}}):
        assert json.loads(made) == {name: "an ordinary value", "count": {name: 4096}}


def test_numbers_are_redacted_only_below_names_of_passwords() -> None:
    for made in both_ways({"token": 5, "password": 12345678, "secret": True, "api_key": None}):
        assert json.loads(made) == {"token": 5, "password": MARKER, "secret": True, "api_key": None}


def test_a_short_or_ordinary_secret_is_not_redacted_in_other_texts() -> None:
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
def test_prose_is_not_redacted(text: str) -> None:
    assert redact_text(text) == text
    for made in both_ways({"text": text}):
        assert json.loads(made) == {"text": text}


# A key of no vendor, an old-style password, and lines of a private key.
KEY, PASSWORD, LINES = "Zx81kqPw77LmTr4vYb92", "k4n@rieVogel", PEM.split("\n")


@pytest.mark.parametrize(
    ("items", "secrets"),
    [
        (["-y", "server", "--api-key", KEY, "--verbose"], {3}),
        (["mysql", "--user", "me", "--password", PASSWORD, "shop"], {4}),
        (["docker", "login", "-u", "me", "password", PASSWORD, "-q"], {5}),
        (["Host", "x.example", "X-Api-Key", KEY, "Accept", "*/*"], {3}),
        (["first", *LINES, "last"], {1, 2, 3, 4}),
        ([f"{line}\n" for line in LINES], {0, 1, 2, 3}),
        (["AKIA" + "IOSFODNN7CANARY2", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY0123456789"], {0, 1}),
        ([*["a word"] * 50, "--token", KEY], {51}),
        (["Authorization:", "Bearer", KEY], {2}),
        (["password", "=", PASSWORD], {2}),
        (["the", "password", "is", PASSWORD], {3}),
        ([TOKENS["openai"][:8], TOKENS["openai"][8:16], TOKENS["openai"][16:]], {0, 1, 2}),
        ([f"{part}." for part in JWT.split(".")], {0, 1, 2}),
    ],
)
def test_a_secret_that_another_text_of_a_list_reveals_is_redacted(
    items: list[str], secrets: set[int]
) -> None:
    """As the arguments of a command, raw headers, or the lines of a private key."""
    for value in (items, {"args": items}, {"a": [[*items]]}, {"nested": json.dumps([1, items])}):
        for made in both_ways(value):
            found = json.loads(made)
            if isinstance(found, dict):
                (found,) = found.values()
            found = json.loads(found)[1] if isinstance(found, str) else found
            found = found[0] if isinstance(found[0], list) else found
            hidden = {
                number for number, (one, was) in enumerate(zip(found, items, strict=True)) if one != was
            }
            assert hidden == secrets and all(MARKER in found[number] for number in secrets)


@pytest.mark.parametrize(
    "items",
    [
        ["id", "token", "created_at", "password_hash"],
        ["--token", "--verbose"],
        ["--key", "name", "--password", "prompt"],
        ["The key takeaways:", "Growth was 12 % in 2024.", "password", "Reset it on 2024-05-06"],
        ['{"token": "hello"}', '{"key": "value-2024-x"}'],
        ["token", "gpt-4o-mini", "secret", "santa"],
        ["a, password, b\nx, y1y1y1y1, z", "more"],
        ["class State:", '    key: str = "sk-of"', "", "", "class Secret(Flow):", "    pass", '    x = "y"'],
        ["secret = target.secret = f", "if secret:", 'return page(request, secret, "a1b2c3d4e5")', "x1 = 2"],
    ],
)
def test_ordinary_texts_of_lists_are_not_redacted(items: list[str]) -> None:
    alone = [redact([item])[0] for item in items]
    for made in both_ways({"items": items, "then": "more"}):
        assert json.loads(made) == {"items": alone, "then": "more"}


STREAMED: dict[str, Callable[[str], Any]] = {
    "OpenAI": lambda part: {"choices": [{"index": 0, "delta": {"content": part}}]},
    "OpenAI's calls": lambda part: {
        "choices": [{"delta": {"tool_calls": [{"function": {"arguments": part}}]}}]
    },
    "OpenAI's responses": lambda part: {"type": "response.output_text.delta", "delta": part},
    "Anthropic": lambda part: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": part}},
    "LangChain": lambda part: {
        "id": ["langchain", "messages", "AIMessageChunk"],
        "kwargs": {"content": part},
    },
    "LangGraph": lambda part: {"__type__": "x.AIMessageChunk", "fields": {"content": [{"text": part}]}},
    "CrewAI": lambda part: {"event": {"type": "llm_stream_chunk", "chunk": part, "agent_id": "a"}},
}


@pytest.mark.parametrize("streamed", STREAMED.values(), ids=STREAMED)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_secret_that_is_split_over_streamed_objects_is_redacted(
    streamed: Callable[[str], Any], size: int
) -> None:
    for text, secret in (
        (f"It used {TOKENS['openai']}, and ended.", TOKENS["openai"]),
        (f"The password is {PASSWORD} of the user.", PASSWORD),
        (f'{{"api_key": "{KEY}", "page": 2}}', KEY),
        ("It printed MyS3cretValue-xyz9 twice.", "MyS3cretValue-xyz9"),
    ):
        known = known_secrets(("MyS3cretValue-xyz9",))
        parts = [streamed(text[at : at + size]) for at in range(0, len(text), size)]
        by_id = {f"id-{number}": part for number, part in enumerate(parts)}
        for value in (parts, by_id, {"nested": json.dumps(parts)}):
            document = json.dumps({"in": value, "then": "more"}).encode()
            for made in (
                redact(json.loads(document), known),
                json.loads(redacted_json(document, scan(document), known)),
            ):
                found = made["in"]
                found = json.loads(found["nested"]) if "nested" in found else found
                found = list(found.values()) if isinstance(found, dict) else found
                shown = "".join(
                    part for one in found for part in texts_of(one) if part in text or MARKER in part
                )
                assert MARKER in shown and not any(
                    secret[at : at + 5] in shown for at in range(len(secret) - 5)
                )
                assert shown.replace(MARKER, "").endswith(text[-3:]) and made["then"] == "more"


def texts_of(value: Any) -> list[str]:
    """Every text of a value that is no type, in order."""
    if isinstance(value, dict):
        return [
            one
            for name, item in value.items()
            if name not in ("type", "id", "agent_id")
            for one in texts_of(item)
        ]
    if isinstance(value, list):
        return [one for item in value for one in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_texts_of_streams_that_arrive_together_are_judged_apart() -> None:
    token = TOKENS["openai"]
    parts = [
        {"choices": [{"index": index, "delta": {"content": text}}]}
        for at in range(0, len(token), 4)
        for index, text in enumerate((token[at : at + 4], "plain words, "))
    ]
    for made in both_ways({"in": parts}):
        shown = [one["choices"][0]["delta"]["content"] for one in json.loads(made)["in"]]
        assert {*shown[::2]} == {MARKER} and {*shown[1::2]} == {"plain words, "}


def test_other_objects_with_parts_are_shown() -> None:
    for value in (
        [{"delta": 0.5, "name": "a-1"}, {"delta": -0.5, "name": "b-2"}],
        [{"chunk": "The token"}, {"chunk": " count is 1200 in 2024."}, {"chunk": None}],
        [{"role": "user", "content": "sk-proj-CANA"}, {"role": "user", "content": "RY0123456789abcdef"}],
    ):
        for made in both_ways({"in": value}):
            assert json.loads(made) == {"in": value}


@pytest.mark.parametrize(
    "value",
    [
        {"credentials": {"type": "oauth", "description": "production", "blob": KEY}},
        {"password": f"${PASSWORD}2026x"},
        {"password": f"<{KEY}>"},
        {"secret": f"config.{KEY}"},
    ],
)
def test_what_resembles_a_schema_or_a_placeholder_hides_no_secret(value: Any) -> None:
    for made in both_ways(value):
        assert KEY not in made and PASSWORD not in made


@pytest.mark.parametrize(
    "value",
    [
        {"header_name": "X-Api-Key", "header_value": KEY},
        {"variableValue": KEY, "scope": "all", "variableName": "OPENAI_API_KEY"},
        {"env_key": "DB_PASSWORD", "is_secret": True, "env_value": f"x-{KEY}"},
        {"a": [{"SECRET_NAME": "db_password", "SECRET_VALUE": [KEY]}]},
    ],
)
def test_a_value_is_redacted_if_the_field_of_its_name_has_the_same_prefix(value: Any) -> None:
    for made in both_ways({"first": "x", "in": value, "then": "more"}):
        assert KEY not in made and "more" in made


# A field that names a secret or marks it, and the field that holds it. The name may follow the value.
NAMED = [
    ({"type": "password"}, "value"),
    ({"type": "SecureString", "Name": "/prod/db"}, "Value"),
    ({"__type__": "SecretStr"}, "value"),
    ({"inputType": "password"}, "value"),
    ({"type": "string", "format": "password"}, "default"),
    ({"name": "db", "secret": True}, "value"),
    ({"name": "db", "isSecret": True}, "value"),
    ({"sensitive": True, "key": "db"}, "val"),
    ({"name": "X-Api-Key", "comment": ""}, "value"),
    ({"name": "X-Api-Key", "comment": ""}, "values"),
    ({"key": "token", "type": "str"}, "val"),
    ({"k": "password"}, "v"),
    ({"label": "Password", "id": 7}, "value"),
    ({"column": "password", "old_value": None}, "new_value"),
    ({"op": "replace", "path": "/user/password"}, "value"),
    ({"selector": "#password"}, "text"),
    ({"kind": "password"}, "data"),
    ({"name": "password", "default": "text"}, "value"),
]


@pytest.mark.parametrize("secret", [KEY, PASSWORD])
@pytest.mark.parametrize(("fields", "holder"), NAMED)
def test_a_value_that_another_field_names_or_marks_is_redacted(
    fields: dict[str, Any], holder: str, secret: str
) -> None:
    value = [secret] if holder == "values" else secret
    for item in ({**fields, holder: value}, {holder: value, **fields}):
        for made in both_ways({"first": "x", "in": [item], "then": "more"}):
            assert secret not in made and "more" in made
        for text in (json.dumps(item), json.dumps(item, indent=2), repr(item), json.dumps(json.dumps(item))):
            for form in (text, f"The tool returned {text} and ended.", f"It returned {text[:-1]}"):
                assert secret not in redact_text(form)


@pytest.mark.parametrize(
    ("fields", "holder", "word"),
    [
        ({"name": "DB_PASSWORD"}, "value", "summer"),
        ({"name": "DB_PASSWORD"}, "value", "correct horse battery"),
        ({"Key": "OPENAI_API_KEY"}, "Value", "supersecret"),
        ({"env_name": "DB_PASSWORD"}, "env_value", "summer"),
        ({"name": "password"}, "value", "summer"),
        ({"name": "user_password", "type": "text"}, "value", "Summer"),
    ],
)
def test_a_word_is_redacted_as_the_value_of_a_variable_or_password(
    fields: dict[str, Any], holder: str, word: str
) -> None:
    for item in ({**fields, holder: word}, {holder: word, **fields}):
        for made in both_ways({"first": "x", "in": [item], "then": "more"}):
            assert word not in made and "more" in made


@pytest.mark.parametrize(
    "value",
    [
        {"name": "DB_PASSWORD", "value": "required"},
        {"name": "DB_PASSWORD", "description": "of the user"},
        {"name": "DB_PASSWORD", "content": "The password was changed."},
        {"name": "password", "value": "of the user"},
        {"name": "token", "value": "running"},
        {"name": "SORT_KEY", "value": "created"},
    ],
)
def test_other_words_beside_names_are_shown(value: Any) -> None:
    for made in both_ways({"in": value}):
        assert json.loads(made) == {"in": value}


def test_everything_that_is_marked_as_secret_is_redacted_but_placeholders() -> None:
    for fields in ({"type": "password"}, {"secret": True}, {"format": "password"}):
        for value, made in (("summer", MARKER), (4711, MARKER), ("<your password>", "<your password>")):
            for redacted in both_ways({**fields, "value": value}):
                assert json.loads(redacted)["value"] == made


@pytest.mark.parametrize(
    "value",
    [
        {"type": "token", "content": "gpt-4o-mini-2024"},
        {"type": "token", "content": "(e.g. 2024-05)"},
        {"title": "The secrets of the sea", "content": "Chapter 7, the tide 2.0"},
        {"id": "secret_scan", "data": {"label": "Scan 2 repositories"}},
        {"label": "Password", "text": "8 or more letters"},
        {"secret": False, "value": "a-plain-1"},
        {"case_sensitive": True, "value": "a-plain-1"},
    ],
)
def test_what_other_fields_label_is_shown_unless_it_looks_like_a_secret(value: Any) -> None:
    for made in both_ways({"in": value}):
        assert json.loads(made) == {"in": value}


ROWS = [["bob", KEY], ["al", f"{PASSWORD}1"]]
TABLES: list[Any] = [
    {"columns": ["name", "password"], "data": ROWS},
    {"index": [0, 1], "columns": ["name", "API key"], "data": ROWS},
    {"headers": ["name", "secret", "city"], "rows": [[*row, "Rome"] for row in ROWS]},
    {"columns": ["password"], "rows": [[KEY], [PASSWORD]]},
    {"range": "A1:B3", "values": [["Name", "Password"], *ROWS]},
    [["name", "password"], *ROWS],
    {"keys": ["user", "password", "secret"], "values": ["bob", KEY, PASSWORD]},
]


@pytest.mark.parametrize("table", TABLES)
def test_cells_below_the_name_of_a_secret_are_redacted(table: Any) -> None:
    for made in both_ways({"first": "x", "in": table, "said": f"It is {KEY}.", "then": "more"}):
        assert KEY not in made and PASSWORD not in made and "more" in made
    for text in (json.dumps(table), json.dumps(table, indent=2), repr(table), json.dumps(json.dumps(table))):
        for form in (text, f"The tool returned {text} and ended.", f"It returned {text[:-2]}"):
            assert KEY not in redact_text(form) and PASSWORD not in redact_text(form)


# Tables as databases answer them: BigQuery, Google's charts, Athena, RDS, Snowflake, Databricks and Neo4j.
COLUMNS = [{"name": "user", "type": "STRING"}, {"name": "password", "type": "STRING"}]
ANSWERED: list[Any] = [
    {"schema": {"fields": COLUMNS}, "rows": [{"f": [{"v": one} for one in row]} for row in ROWS]},
    {
        "cols": [{"id": "A", "label": "user"}, {"id": "B", "label": "password"}],
        "rows": [{"c": [{"v": one, "f": one} for one in row]} for row in ROWS],
    },
    {
        "Rows": [{"Data": [{"VarCharValue": one} for one in row]} for row in ROWS],
        "ResultSetMetadata": {
            "ColumnInfo": [{"CatalogName": "hive", "Name": one["name"]} for one in COLUMNS]
        },
    },
    {"records": [[{"stringValue": one} for one in row] for row in ROWS], "columnMetadata": COLUMNS},
    {"resultSetMetaData": {"rowType": COLUMNS}, "data": ROWS},
    {"manifest": {"schema": {"columns": COLUMNS}}, "result": {"row_count": 2, "data_array": ROWS}},
    {"results": [{"columns": ["u.name", "u.password"], "data": [{"row": row, "meta": []} for row in ROWS]}]},
    {
        "schema": {"fields": [{"name": "session"}]},
        "rows": [{"f": [{"v": KEY}]}, {"f": [{"v": f"{PASSWORD}1"}]}],
    },
]


def test_cells_of_tables_in_decoded_json_are_redacted() -> None:
    for table in (
        {"data": ROWS, "columns": ["name", "password"]},
        {"columns": [{"name": "user"}, {"name": "password", "type": "str"}], "rows": ROWS},
        {"columns": ["name", "pin"], "rows": [["bob", 4711], ["al", 4712]]},
        *ANSWERED,
    ):
        for made in both_ways({"first": "x", "in": table, "then": "more"}):
            assert KEY not in made and PASSWORD not in made and "471" not in made and "more" in made


@pytest.mark.parametrize(
    "table",
    [
        "name,token,city\nbob,{},Rome\n",
        'name,city,password\n"Smith, Bob",Rome,{}\n',
        "name;password\r\nbob;{}\r\n",
        "name\tpassword\nbob\t{}\n",
        " name | password \n------+----------\n bob  | {}\n(1 row)",
        "+------+-----+\n| name | password |\n+------+-----+\n| b\\|ob | {} |\n+------+-----+",
        "┌──────┬──────────┐\n│ name │ password │\n├──────┼──────────┤\n│ bob  │ {} │\n└──────┴──────────┘",
        "   name              password\n0   bob  {}\n",
        "NAME   PASSWORD       AGE\nbob    {}   3d\n",
        "<table><tr><th>name</th><th>password</th></tr>\n<tr><td>bob</td><td><b>{}</b></td></tr></table>",
    ],
)
def test_cells_of_tables_in_texts_are_redacted(table: str) -> None:
    text = table.format(KEY)
    for form in (text, f"The tool returned:\n\n{text}\n\nand ended."):
        assert redact_text(form) == form.replace(KEY, MARKER)
        for made in both_ways({"text": form}):
            assert json.loads(made) == {"text": form.replace(KEY, MARKER)}


@pytest.mark.parametrize(
    "value",
    [
        {"columns": ["name", "password"], "data": [["length", "8 or more"], ["kind", "varchar"]]},
        {"required": ["user", "password"], "values": [["a-1", "b-2", "c-3"]]},
        {"schema": {"required": ["user", "password"]}, "rows": [{"f": ["a-1", "b-2", "c-3"]}]},
        {"schema": {"fields": [{"name": "password"}]}, "rows": [{"f": [{"v": "varchar"}]}]},
        [["Field", "Password"], ["type", "string"], ["about", "of the user"]],
        {"text": "option  password\ntype    str | None\nsince   version 2.1\n"},
        {"text": "f(user, password)\ng('v1.2-x3', 'a1b2c3d4')"},
    ],
)
def test_other_tables_are_shown(value: Any) -> None:
    for made in both_ways({"in": value}):
        assert json.loads(made) == {"in": value}


@pytest.mark.parametrize("names", ["api_keys", "passwords"])
def test_each_secret_of_a_list_in_a_text_is_redacted(names: str) -> None:
    items = [f"{KEY}{number}" for number in range(15)]
    for text in (f"{names} = {items}", f"got {json.dumps({names: items, 'then': 'more'})} and more"):
        made = redact_text(text)
        assert KEY not in made and MARKER in made and ("more" in made) == ("more" in text)


def test_other_pairs_are_shown() -> None:
    value = {
        "tool_name": "get_token",
        "tool_value": "a few words",
        "field_name": "Colour",
        "field_value": KEY,
        "task_name": "Rotate the API key",
        "other_value": KEY,
    }
    for made in both_ways(value):
        assert json.loads(made) == value


def test_schemas_and_placeholders_are_shown() -> None:
    value = {
        "password": {"type": "string", "description": "of the user"},
        "token": {"type": ["string", "null"], "title": "Token"},
        "secret": {"anyOf": [{"type": "string"}], "title": "Secret"},
        "api_key": "${OPENAI_API_KEY_2}",
        "client_secret": "os.environ['CLIENT_SECRET']",
        "db_password": "$DB_PASSWORD",
        "auth_token": "<your token here>",
    }
    for made in both_ways(value):
        assert json.loads(made) == value


ACCOUNT = {"type": "service_account", "private_key": PEM, "client_email": "me@example.org"}


@pytest.mark.parametrize(
    "document",
    [
        json.dumps(ACCOUNT),
        json.dumps(ACCOUNT, indent=2),
        json.dumps({"auths": {"registry.example": {"auth": "bWU6azRuQHJpZVZvZ2Vs"}}}),
        json.dumps([{"name": "DB_PASSWORD", "value": PASSWORD}]),
        json.dumps(["--api-key", KEY]),
        json.dumps({"note": f"use {TOKENS['openai']}"}),
    ],
)
@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_document_in_base64_that_holds_a_secret_is_redacted(
    document: str, packed: Callable[[bytes], bytes]
) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(packed(document.encode())).decode()
        for form in (
            text,
            f"export ACCOUNT_FILE={text}\nnext",
            f"data:\n  config.json: {text}\n",
            text.rstrip("="),
        ):
            for made in both_ways({"seen": form, "then": "more"}):
                assert text[20:40] not in made and MARKER in made and "more" in made


@pytest.mark.parametrize(
    "text",
    [
        "sqlplus -s bob/{}@sales",
        "sqlplus bob/{}",
        "sqlldr userid=bob/{}@sales control=x.ctl",
        "impdp bob/{}@sales directory=x",
        "oracledb.connect('bob/{}@db.example:1521/sales')",
        "jdbc:oracle:thin:bob/{}@//db.example:1521/sales",
        "bob/{}@db",
        "it logged in as bob/{}@orcl and went on",
        "bob/{}@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=x)))",
    ],
)
def test_a_password_behind_the_user_of_oracle_is_redacted(text: str) -> None:
    for secret in ("k4nrieVogel", "tiger"):
        for made in both_ways({"text": text.format(secret), "then": "more"}):
            assert json.loads(made) == {"text": text.format(MARKER), "then": "more"}


@pytest.mark.parametrize(
    "text",
    [
        "uses actions/checkout@v4",
        "org/Model-2-7B@main",
        "npm i @scope/a@1.2.3",
        "bob/<password>@db",
        "a/me@db.example",
    ],
)
def test_other_names_before_an_at_sign_are_shown(text: str) -> None:
    for made in both_ways({"text": text}):
        assert json.loads(made) == {"text": text}


@pytest.mark.parametrize(
    "plain",
    [
        f"password={PASSWORD}",
        f"# Settings\nHOST=x\nSERVICE_API_KEY={KEY}\n",
        f"<config><dbPassword>{PASSWORD}</dbPassword></config>",
        f"Authorization: Bearer {KEY}",
        "postgresql://app:k4nrieVogel@db.example/x",
        TOKENS["openai"],
        TOKENS["github"],
        TOKENS["aws"],
        PEM,
    ],
)
def test_an_encoded_text_that_is_recognised_as_a_secret_is_redacted(plain: str) -> None:
    data = plain.encode()
    for text in (
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
        data.hex(),
        data.hex().upper(),
        f"0x{data.hex()}",
        base64.b64encode(base64.b64encode(data)).decode(),
        base64.b64encode(b"it printed " + base64.urlsafe_b64encode(data)).decode(),
        base64.b32encode(data).decode(),
        base64.b32encode(data).decode().rstrip("="),
        data.hex(" "),
        data.hex(":").upper(),
        data.hex("-"),
        data.hex(" ", -2),
        ", ".join(f"0x{byte:02X}" for byte in data),
    ):
        for form in (text, f"it printed {text} and ended", f"data:\n  settings: {text}\n"):
            for made in both_ways({"seen": form, "then": "more"}):
                assert text[16:32] not in made and MARKER in made and "more" in made


@pytest.mark.parametrize("columns", ["{hex1:<23}  {hex2:<23}  |{shown}|", "{pairs:<39}  {shown}"])
def test_a_dump_of_bytes_that_holds_a_secret_is_redacted(columns: str) -> None:
    data = f"HOST=x\nSERVICE_API_KEY={KEY}\n".encode()
    lines = [data[at : at + 16] for at in range(0, len(data), 16)]
    dump = "\n".join(
        f"{16 * number:08x}: "
        + columns.format(
            hex1=line[:8].hex(" "),
            hex2=line[8:].hex(" "),
            pairs=line.hex(" ", -2),
            shown="".join(chr(byte) if 32 <= byte < 127 else "." for byte in line),
        )
        for number, line in enumerate(lines)
    )
    for made in both_ways({"seen": f"It printed\n{dump}\nand ended.", "then": "more"}):
        assert KEY[:4] not in made and KEY[:4].encode().hex(" ") not in made and KEY[-8:-4] not in made
        assert "and ended" in made and "more" in made


@pytest.mark.parametrize("plain", ["The password is in the safe.", "token counts: 1200", "secret santa 2024"])
def test_an_encoded_text_without_a_secret_is_shown(plain: str) -> None:
    for text in (
        base64.b64encode(plain.encode()).decode(),
        base64.b64encode(base64.b64encode(plain.encode())).decode(),
        base64.b32encode(plain.encode()).decode(),
        plain.encode().hex(),
        plain.encode().hex(":"),
    ):
        for made in both_ways({"seen": f"it printed {text} and ended"}):
            assert text in made


@pytest.mark.parametrize(
    "document", ['{"page": 2, "after": "task-2024-x"}', '{"token_count": 1200}', '["a", "b"]']
)
def test_a_document_in_base64_without_a_secret_is_shown(document: str) -> None:
    for data in (document.encode() * 9, gzip.compress(document.encode()), b'{"' + bytes(range(256))):
        value = {
            "cursor": base64.b64encode(data).decode(),
            "text": f"next={base64.b64encode(data).decode()}&x=1",
        }
        for made in both_ways(value):
            assert json.loads(made) == value


def test_redaction_is_idempotent() -> None:
    value = {"api_key": "CANARY-77", "text": "password=CANARYpw1 " + " ".join(TOKENS.values())}
    once = redact(value)
    assert redact(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        *("a", "sk-", "eyJ", "a:", "-----BEGIN ", "api_key", "x://", "_", '"', "key=", "[[", '{"'),
        *("token_count=", "token_count: ", "token='", "-----BEGIN A PRIVATE KEY-----"),
    ],
)
def test_hostile_repetition_is_fast(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    started = time.thread_time()
    redact({"text": text})
    assert time.thread_time() - started < 10


def test_an_image_in_a_text_is_not_changed() -> None:
    letters = string.ascii_letters + string.digits
    picture = "".join(random.Random(7).choices(letters, k=4_000_000))
    body = {"entities": [], "event_record": {"nodes": {}}, "seen": f"data:image/png;base64,{picture}pwd"}
    data = json.dumps(body).encode()
    ids = RecordedIds("20260101T000000_00000000", None, "main")
    raw = RawCheckpoint(Entry("a.json", "1", len(data)), data, lambda _format: ids)
    read = snapshot_of(raw, [STORE_FORMAT], ReadLimits(), time.monotonic())
    assert read.body == data


def test_the_digest_of_the_rules_covers_every_file_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {file for file in (Path(__file__).parents[2] / "viewer/redaction").rglob("*") if file.is_file()}
    read: list[Path] = []

    def recorded(file: Path) -> bytes:
        read.append(file)
        return b""

    monkeypatch.setattr(Path, "read_bytes", recorded)
    rules_digest.__wrapped__()
    assert {*read} == {file for file in files if file.suffix != ".pyc"}


def test_a_whole_checkpoint_shows_no_secret_of_a_stream_an_answer_or_another_encoding() -> None:
    """What a tool returned is in the output of a task, as JSON in a text or within a sentence."""
    checkpoint = json.loads(next((STORES / "1.15.30").rglob("*.json")).read_text())
    text = f"It used {TOKENS['openai']}, and ended."
    parts = [STREAMED["CrewAI"](text[at : at + 4]) for at in range(0, len(text), 4)]
    checkpoint["event_record"]["nodes"] |= {f"part-{number}": part for number, part in enumerate(parts)}
    plain = f"password={PASSWORD}".encode()
    checkpoint["entities"][0]["seen"] = [
        *(json.dumps(answered) for answered in ANSWERED),
        json.dumps({"name": "DB_PASSWORD", "value": "summer"}),
        f"It printed {base64.b32encode(plain).decode()} and {plain.hex(' ')}.",
        base64.b64encode(base64.b64encode(plain)).decode(),
        {"АРІ_КЕУ": KEY},  # noqa: RUF001
    ]
    data = json.dumps(checkpoint).encode()
    ids = RecordedIds("20260101T000000_00000000", None, "main")
    raw = RawCheckpoint(Entry("a.json", "1", len(data)), data, lambda _format: ids)
    read = snapshot_of(raw, [STORE_FORMAT], ReadLimits(), time.monotonic())
    shown = json.loads(read.body)
    chunks = [
        shown["event_record"]["nodes"][f"part-{number}"]["event"]["chunk"] for number in range(len(parts))
    ]
    assert "".join(chunks).replace(MARKER, "") == "It used , and ended."
    seen = shown["entities"][0].pop("seen")
    for secret in (KEY, PASSWORD, "summer", plain.hex(" "), "cGFzc3", "OBQXG43XN5ZGI", "Y0dGemMz"):
        assert secret not in str(seen)
    assert str(seen).count(MARKER) >= 2 * len(ANSWERED) + 5 and "It printed" in str(seen)


def test_words_of_a_name() -> None:
    assert secrecy_of("accessKey") == secrecy_of("ACCESS_KEY_2") == "soft"
    assert secrecy_of("monkey") == ""
    assert secrecy_of("keyboard") == ""
    assert secrecy_of("tokenizer") == ""


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_server_logs_contain_no_secret(formatter: logging.Formatter) -> None:
    assert f"checkpoint_site.logs.{type(formatter).__name__}" in str(settings.LOGGING)
    try:
        raise ValueError(f"cannot read {TOKENS['openai']}")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "at %s", (TEXTS["url"][0],), sys.exc_info())
    line = formatter.format(record)
    assert "CANARY" not in line and "ValueError" in line and "at " in line
