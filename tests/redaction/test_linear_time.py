"""Redaction takes linear time for any text."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewer.redaction.values import redact, redacted_json, scan

REPEATED = {
    "key blocks that do not end": "-----BEGIN A PRIVATE KEY-----",
    "key blocks of lines": "-----BEGIN PRIVATE KEY-----\nabc\n",
    "ends of key blocks": "-----END PRIVATE KEY-----",
    "headers of key blocks": "-----BEGIN PRIVATE KEY-----\nA-b: c\n",
    "names": "api_key",
    "names and signs": "password=",
    "names and quotes": "password='",
    "names and escaped quotes": 'password=\\"',
    "names and colons": "secret: ",
    "colons": "a:",
    "signs": "key==",
    "quotes": '"',
    "backslashes": "\\",
    "escaped quotes": '\\"key\\": \\',
    "beginnings of tokens": "sk-",
    "beginnings of JWTs": "eyJhbGci",
    "beginnings of JWTs apart": ".eyJ",
    "addresses": "a://b:",
    "signed addresses": "?sig=",
    "flags": " --token ",
    "users": " -u a:",
    "table cells": "| password ",
    "table rows": "| password |\n| --- |\n",
    "lines of commas": "password,token\n",
    "elements": "<password>",
    "attributes": '<a name="password" ',
    "pairs": '"name": "password", ',
    "users of Oracle": "sqlplus a/b1c2@",
    "services of Oracle": " a/b1c2@db",
    "aligned names": "password  token\nk4n@rie1  x\n",
    "wide rows": "password  " * 3 + "\n" + "x1y2z3w4  " * 3 + "\n",
    "one wide row": "password  token  ",
    "lists of names": '("password","b"),("x1y2z3","b"),',
    "tables of HTML": "<tr><th>password</th><th>b</th></tr>",
    "names of values": '"name": "password", "value": "a", ',
    "lists of values": '"name": "password", "values": ["a", ',
    "lists of secrets": 'password=["',
    "marks": '"secret": true, ',
    "elements of a kind": "<type=password ",
    "blocks of YAML": "password: |\n  a\n",
    "headers": "Authorization: Digest ",
    "cookies": "Cookie: a=b; ",
    "calls": "password=f(",
    "brackets": "[[",
    "objects": '{"a":',
    "commands": "mysql -p",
    "heads of key blocks apart": "-----BEGIN PRIVATE KEY-----!",
    "key blocks in Base64": "LS0tLS1CRUdJTiBSU0Eg\n",
    "names in Base64": "cGFzc3dvcmQ9YTFiMmMzZDQ ",
    "names in hexadecimal digits": "70617373776f72643d6131 ",
    "names in one text in Base64": "cGFzc3dvcmQ9",
    "names twice in Base64": "Y0dGemMzZHZjbVE5YTFiMmMzZDQ= ",
    "names in Base32": "OBQXG43XN5ZGIPLLGRXEA4TJMVLG6Z3FNQ ",
    "names in separated bytes": "70 61 73 73 77 6f 72 64 3d 61 31 62 32 ",
    "dumps": "00000010: 70 61 73 73  |pass|\n",
    "percent signs": "api_key%3D",
    "percent signs of percent signs": "%253D",
    "entities": "&amp;#61;",
    "colours": "\x1b[0m",
    "colours without an end": "\x1b]",
    "characters without a width": "\u200b",
    "wide letters": "\N{FULLWIDTH LATIN SMALL LETTER P}",
    "look-alikes": "p\N{CYRILLIC SMALL LETTER A}ssword=",
    "wrapped words": "key=" + "abcdefgh1" * 6 + "\n",
    "boxes": "\u2502 abcdefgh1 \u2502\n",
    "labels of vendors": "datadog = ",
    "labels in Chinese": "\u5bc6\u7801\u662f",
    "purposes": "password for the a b ",
    "comparisons": 'password == "',
    "empty cookies": "cookie: ",
    "addresses of webhooks": "webhook_url=https://a/",
    "ids of accounts": "AC" + "0" * 32 + " ",
}
# Shorter measurements, in seconds, are too inaccurate.
MEASURABLE = 0.005
LONGER = 16
# Larger texts leave the processor's caches, so that each character may take up to four times as long.
# Quadratic work would take 256 times as long.
MAX_GROWTH = 64


def seconds(work: Callable[[], Any]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def check_linear(work: Callable[[int], Callable[[], Any]]) -> None:
    """Raise if a text that is 16 times as long takes much more than 16 times as much time."""
    count = 1_000
    while seconds(work(count)) < MEASURABLE and count < 100_000:
        count *= 2
    growths = []
    for _ in range(3):
        short, long = seconds(work(count)), seconds(work(LONGER * count))
        growths.append(long / short)
        if growths[-1] < MAX_GROWTH:
            return
    raise AssertionError(f"{LONGER} times as many as {count} pieces take {growths} times as long")


@pytest.mark.parametrize("piece", REPEATED.values(), ids=REPEATED)
def test_texts(piece: str) -> None:
    check_linear(lambda count: lambda: redact({"text": piece * count}))


def test_many_secret_fields() -> None:
    def work(count: int) -> Callable[[], Any]:
        fields = {f"f{number}_password": f"value-{number}-x7" for number in range(count)}
        data = json.dumps(
            {**fields, "texts": [f"value-{number}-x7" for number in range(0, count, 7)]}
        ).encode()
        return lambda: redacted_json(data, scan(data))

    check_linear(work)


def test_many_tables_in_one_object() -> None:
    def work(count: int) -> Callable[[], Any]:
        headers = {f"h{number}": [{"name": "password"}, {"name": "b"}] for number in range(count)}
        rows = {f"r{number}": [{"f": [{"v": "x1y2z3w4"}, {"v": "a"}]}] for number in range(count)}
        return lambda: redact({"schema": headers, **rows, "rows": [["x1y2z3w4", "a"]] * count})

    check_linear(work)


def test_streamed_objects() -> None:
    def work(count: int) -> Callable[[], Any]:
        parts = [{"choices": [{"delta": {"content": part}}]} for part in ("sk-", "key", "= ", "a1") * count]
        return lambda: redact({"in": parts, "by id": {str(at): one for at, one in enumerate(parts)}})

    check_linear(work)
    value: Any = "sk-"
    for _ in range(150):
        value = (
            [{"delta": {"content": value}}, {"delta": {"content": value}}]
            if _ < 12
            else [{"delta": value}, 1]
        )
    assert seconds(lambda: redact(value)) < 2


def test_more_known_secrets_than_one_search_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewer.redaction.known_secrets.MAX_SEARCHED_BYTES", 1000)
    secrets = {f"f{number}_password": f"value-{number}-x7" for number in range(300)}
    made = redact({**secrets, "text": "it is value-299-x7 again"})
    assert made["text"] == "it is [redacted] again"


def test_json_inside_json() -> None:
    value: Any = {"password": "kanarie7vogel", "list": ["a"] * 50}
    for _ in range(12):
        value = {"inner": json.dumps(value), "more": "x"}
        if len(value["inner"]) > 2_000_000:
            break
    assert "kanarie7vogel" not in json.dumps(redact(value))
    check_linear(
        lambda count: lambda: redact({"text": json.dumps({"a": json.dumps({"b": ["c:d"] * count})})})
    )


def test_base64_inside_base64() -> None:
    # Each level has what may obscure a secret, so that its text is searched several times.
    text = "CANARY"
    while len(text) < 20_000:
        text = base64.b64encode(f'{{"a%3D\u200b": "{text}"}}'.encode()).decode()
    assert seconds(lambda: redact({"text": f"%3D\u200b {text}"})) < 2


def test_no_rule_uses_backtracking() -> None:
    files = (Path(__file__).parents[2] / "viewer/redaction").rglob("*.py")
    users = {file.name for file in files if "\nimport re\n" in file.read_text()}
    # The patterns of values.py split JSON bytes into strings: no character matches two parts. Those of
    # patterns.py are matched at one position, and their repetitions are possessive. That of known_secrets.py
    # repeats nothing without a fixed count.
    assert users == {"known_secrets.py", "patterns.py", "values.py"}
