"""Redacting JSON bytes gives the same as redacting the decoded values."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_stores import STORES
from tests.redaction.canaries import FIELDS, HARMLESS, TEXTS, TOKENS, both_ways
from viewer.redaction import MARKER
from viewer.redaction.values import redact, redacted_json, scan


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
        rb'{"name": "contrase\u00f1a", "value": "CANARY-77"}',
        rb'{"columns": ["x", "contrase\u00f1a"], "rows": [["y", "CANARY-77"]]}',
    ],
)
def test_escapes_and_unusual_layouts_hide_no_secret(raw: bytes) -> None:
    assert b"CANARY" not in redacted_json(raw, scan(raw))


def test_a_cached_verdict_applies_only_if_all_examined_bytes_are_the_same() -> None:
    values = [
        "",
        *(f"CANARY-7{'x' * more}" for more in range(90)),
        'CANARY-7 " quoted',
        ["CANARY-7"],
        None,
        7,
    ]
    for name in ("api_key", "password", "headers"):
        for value in [*values, *reversed(values)]:
            document = {"something": "of twenty signs and more", name: value, "then": "what follows"}
            exact, *cut = both_ways(document)
            assert "CANARY" not in exact
            assert all(json.loads(made) == json.loads(exact) for made in cut), document


def test_a_repeated_secret_next_to_a_key_does_not_hide_the_key() -> None:
    token = TOKENS["stripe"]
    for made in both_ways({"api_key": "CANARY value 7", "text": f"CANARY value 7{token}"}):
        assert "CANARY" not in made


@pytest.mark.parametrize(("name", "value"), [("name", "value"), ("header_name", "header_value")])
def test_a_cached_verdict_on_a_name_does_not_apply_to_other_fields(name: str, value: str) -> None:
    named = {name: "X-Api-Key", "about": "a" * 80}
    for fields in (named, {**named, value: "CANARY-77"}):
        for made in both_ways({"padding of twenty": fields}):
            assert "CANARY" not in made


def test_emojis_and_accents_are_not_changed() -> None:
    value = {"text": "déjà vu 😀 日本", "api_key": "CANARY-77"}
    for made in both_ways(value):
        assert json.loads(made) == {"text": "déjà vu 😀 日本", "api_key": MARKER}


SCRAPS = ["CANARY-77/x", "CANARY value 7", "plain words", "key", "é", "😀", *"\\\"\n/:=' {1"]


def test_redacting_random_documents_as_bytes_and_as_values() -> None:
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
def test_only_secrets_of_real_checkpoints_are_redacted(path: Path) -> None:
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
