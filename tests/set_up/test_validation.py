"""Numbers, days, texts and paths as people type them."""

import os
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewer import validation
from viewer.validation import InvalidInput

HOSTILE = [
    *("", " ", "x", "nan", "inf", "-inf", "1e5", "0x10", "\u0661", "1 2", "1_000", "--1", "9" * 31),
    *("9" * 5_000, "1.", "\x1b[2J", "caf\udce9", "x" * 100_000),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_whole_number_is_refused_with_a_short_line(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        validation.whole_number(text, 1, 100)
    message = str(refused.value.of("--limit"))
    assert message.startswith("--limit must be a whole number of ") and len(message) < 200
    assert message.isprintable()


def test_whole_numbers_have_bounds() -> None:
    assert [validation.whole_number(text, -1, 7) for text in ("-1", "+7", " 3 ", "007")] == [-1, 7, 3, 7]
    with pytest.raises(InvalidInput, match="This must be a whole number of 7 or less"):
        validation.whole_number("8", -1, 7)


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e5", "-0.1", "1.2.3", "9" * 40, "²", "x"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        validation.number(text, 0, 1_000)
    assert validation.number(".5", 0, 1) == validation.number("0.50", 0, 1) == 0.5


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-02-30", "2026-1-1", "0001-01-01", "9999-01-01", "20260101", "2026-W01-1"]
)
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="a day such as"):
        validation.day(text)
    assert validation.day("2026-01-31").isoformat() == "2026-01-31"


def test_paths_of_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("text")
    (tmp_path / "program").write_text("")
    (tmp_path / "program").chmod(0o700)
    right: list[tuple[Callable[[str], Any], str]] = [
        (validation.existing_folder, str(tmp_path)),
        (validation.existing_file, str(tmp_path / "file")),
        (validation.program, str(tmp_path / "program")),
        (lambda text: validation.content_of(text, 4), str(tmp_path / "file")),
    ]
    nowhere = [str(tmp_path / "pipe"), str(tmp_path / "missing"), "", "a\0b", "x" * 5_000]
    hostile = ["/dev/zero", "/dev/full", *nowhere]
    for parse, text in right:
        parse(text)
        for other in [*hostile, *(one for _parse, one in right if one != text and "program" not in one)]:
            if (parse, other) != right[2]:
                with pytest.raises(InvalidInput):
                    parse(other)


def test_no_more_of_a_file_is_read_than_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert validation.content_of(str(tmp_path / "file"), 5) == b"12345"
    with pytest.raises(InvalidInput, match="at most 4 bytes"):
        validation.content_of(str(tmp_path / "file"), 4)


def test_a_pipe_of_the_shell_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"from the shell")
    os.close(writing)
    assert validation.content_of(f"/dev/fd/{reading}", 100) == b"from the shell"
    os.close(reading)


def test_messages_are_short_and_one_line() -> None:
    message = validation.brief(f"{'x' * 100_000} is not here.\n\x1b[2J" + " word" * 5_000)
    assert len(message) < 2_100 and message.isprintable()
    assert (
        validation.brief("/a/path: There is nothing at this path.")
        == "/a/path: There is nothing at this path."
    )


def test_the_type_of_an_option_names_what_it_takes() -> None:
    with pytest.raises(ArgumentTypeError, match="must be a whole number of 1 or more, not 'x'"):
        validation.number_option(1, 5)("x")
