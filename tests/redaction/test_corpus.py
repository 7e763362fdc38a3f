"""Secrets of 380 kinds and in 280 notations are redacted; texts that resemble them are not."""

import json
from contextlib import suppress
from typing import Any

import pytest

from tests.redaction.canaries import both_ways
from tests.redaction.corpus import Sample, samples
from viewer.redaction import MARKER
from viewer.redaction.known_secrets import redact_text
from viewer.redaction.values import redact

NOTATIONS, INNOCENTS = samples("notations.txt"), samples("innocents.txt")
# One for each class of the rules of gitleaks and Betterleaks, alone or behind a label as the rule requires.
VENDORS = samples("vendors.txt")
LEAST_REDACTED, MAX_CHANGED = 0.97, 0.02
# The forms in which a run may contain a text.
FORMS = ("text", "JSON text", "nested JSON text", "log line", "beside other text")
# Reported cases: each must pass, regardless of the score.
HARD_NOTATIONS = (
    "aligned assignment",
    "tab before the sign",
    "YAML literal block",
    "YAML folded block",
    "Markdown bold name",
    "Markdown code value",
    "Markdown table row",
    "Markdown table column",
    "JSON name and value",
    "flag",
    "curl user",
    "XML element",
    "XML attribute",
    "netrc",
    "header token",
    "SecretStr",
    "SAS address",
    "presigned address",
    "PGP",
    "JSON list of keys",
    "field private_key_pem",
    "field authHeader",
    "field otp",
    "field sessionid",
    "field sshkey",
)
HARD_INNOCENTS = (
    "header names of a table",
    "plain token",
    "first token",
    "password strength",
    "answer key",
    "api key none",
    "working directory",
    "column called key",
    "column called key in JSON",
)


def named(texts: list[Sample], names: tuple[str, ...]) -> list[Sample]:
    found = {sample.name: sample for sample in texts}
    return [found[name] for name in names]


def in_form(text: str, form: str) -> Any:
    match form:
        case "text":
            return {"output": text}
        case "JSON text":
            return {"output": json.dumps({"result": text})}
        case "nested JSON text":
            return {"output": json.dumps({"result": json.dumps({"inner": [text]})})}
        case "log line":
            return {"output": f"2026-01-01 12:00:00 INFO tool: ran\n{text}\n2026-01-01 12:00:01 INFO done"}
    return {"output": f"The agent wrote:\n\n{text}\n\nand went on.", "other": ["plain", 1, None]}


def is_redacted(sample: Sample, made: str) -> bool:
    """Whether no secret of the sample is left, including the middle of a long one."""
    parts = [part for secret in sample.secrets for part in (secret, secret[4:-4]) if len(part) >= 6]
    return MARKER in made and not any(json.dumps(part)[1:-1] in made for part in parts)


@pytest.mark.parametrize("secrets", [NOTATIONS, VENDORS], ids=["notations", "vendors"])
@pytest.mark.parametrize("form", FORMS)
def test_score_of_secrets(form: str, secrets: list[Sample]) -> None:
    missed = [
        sample.name
        for sample in secrets
        if not is_redacted(sample, json.dumps(redact(in_form(sample.text, form))))
    ]
    redacted = 1 - len(missed) / len(secrets)
    assert len(secrets) >= 250
    assert redacted >= LEAST_REDACTED, f"{redacted:.1%} of {len(secrets)} redacted; missed: {missed}"


@pytest.mark.parametrize("form", FORMS)
def test_score_of_innocents(form: str) -> None:
    changed = [
        sample.name
        for sample in INNOCENTS
        if redact(in_form(sample.text, form)) != in_form(sample.text, form)
    ]
    share = len(changed) / len(INNOCENTS)
    assert len(INNOCENTS) >= 150
    assert share <= MAX_CHANGED, f"{share:.1%} of {len(INNOCENTS)} changed: {changed}"


@pytest.mark.parametrize("sample", named(NOTATIONS, HARD_NOTATIONS), ids=lambda sample: sample.name)
def test_notations_that_must_not_fail(sample: Sample) -> None:
    assert is_redacted(sample, redact_text(sample.text)) or is_redacted(sample, str(decoded(sample)))


@pytest.mark.parametrize("sample", named(INNOCENTS, HARD_INNOCENTS), ids=lambda sample: sample.name)
def test_innocents_that_must_not_fail(sample: Sample) -> None:
    assert redact_text(sample.text) == sample.text
    assert redact({"text": sample.text}) == {"text": sample.text}


def decoded(sample: Sample) -> Any:
    """The redacted value of a sample that is JSON, or else its redacted text."""
    try:
        return redact(json.loads(sample.text))
    except ValueError:
        return sample.text


@pytest.mark.parametrize(
    "samples_of_a_kind", [NOTATIONS, VENDORS, INNOCENTS], ids=["notations", "vendors", "innocents"]
)
def test_redacting_bytes_equals_redacting_values(samples_of_a_kind: list[Sample]) -> None:
    for sample in samples_of_a_kind:
        values: list[Any] = [in_form(sample.text, form) for form in FORMS]
        with suppress(ValueError):
            values.append({"output": json.loads(sample.text)})
        for value in values:
            exact, *cut = both_ways(value)
            assert all(json.loads(made) == json.loads(exact) for made in cut), sample.name


def test_json_keeps_its_structure() -> None:
    for sample in NOTATIONS:
        try:
            value = json.loads(sample.text)
        except ValueError:
            continue
        assert shape(redact(value)) == shape(value), sample.name


def shape(value: Any) -> Any:
    """The structure of a value: its names and types."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__


def test_only_the_redacted_value_changes_in_json_inside_a_text() -> None:
    text = '{ "api_key" : "abc-123-xyz" ,\n  "caf\\u00e9": 1.50,\t"list": [ 1,2 ], "url":"a\\/b" }'
    assert redact({"t": text}) == {"t": text.replace("abc-123-xyz", MARKER)}
