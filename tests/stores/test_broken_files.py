"""Files that are not checkpoints: each has a reason, and the others are read."""

import gzip
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quality.local_stores import store_at
from tests.real_stores import copy_of, hashes_below, one_checkpoint, write_checkpoint
from viewer.host.reading.snapshots import read_snapshot
from viewer.stores.protocol import Entry, ReadLimits, ReadProblem, Unreadable

WHOLE = json.dumps(one_checkpoint()).encode()
LIMITS = ReadLimits(max_bytes=2 * 1024 * 1024, max_depth=100, max_seconds=5)


def deep(levels: int) -> bytes:
    """Return a checkpoint whose flow state has this many levels."""
    return WHOLE.replace(
        b'"checkpoint_state": {', b'"checkpoint_state": {"deep": ' + b"[" * levels + b"]" * levels + b", ", 1
    )


def with_state(text: bytes) -> bytes:
    return WHOLE.replace(b'"checkpoint_state": {', b'"checkpoint_state": {"odd": ' + text + b", ", 1)


BROKEN: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "writing", "empty"),
    "blank": (b"  \n", "writing", "empty"),
    "half": (WHOLE[: len(WHOLE) // 2], "writing", "Truncated JSON"),
    "one_byte_short": (WHOLE[:-1], "writing", "Truncated JSON"),
    "two_of_them": (WHOLE + WHOLE, "writing", "Invalid JSON"),
    "gzip": (gzip.compress(WHOLE), "foreign", "gzip"),
    "bom": (b"\xef\xbb\xbf" + WHOLE, "broken", "byte order mark"),
    "utf16": (WHOLE.decode().encode("utf-16"), "broken", "byte order mark"),
    "nan": (with_state(b"NaN"), "writing", "Invalid JSON"),
    "lone_surrogate": (with_state(b'"\\ud800 alone"'), "writing", "Invalid JSON"),
    "control_sign": (with_state(b'"\x01"'), "writing", "Invalid JSON"),
    "long_number": (with_state(b"7" * 5000), "broken", "digits"),
    "long_number_after_a_text": (
        with_state(b'["\\"' + b"8" * 5000 + b'", ' + b"7" * 5000 + b"]"),
        "broken",
        "digits",
    ),
    "too_deep": (deep(150), "refused", "levels deep"),
    "far_too_deep": (deep(100_000), "refused", "levels deep"),
    "deep_and_half": (b'{"a":' * 100_000, "refused", "levels deep"),
    "too_large": (WHOLE + b" " * LIMITS.max_bytes, "refused", "bytes"),
    "zeros": (b"\0" * 4096, "writing", "zero bytes"),
    "package_json": (b'{"name": "web", "version": "1.0.0"}', "foreign", "not a checkpoint"),
    "a_list": (b"[1, 2, 3]", "foreign", "not a checkpoint"),
    "null": (b"null", "foreign", "not a checkpoint"),
    "sqlite": (b"SQLite format 3\x00" + b"\0" * 84, "foreign", "SQLite"),
    "undecodable": (WHOLE.replace(b"MyFlow", b"My\x81\xffFlow"), "broken", "neither UTF-8"),
}


def read_folder(folder: Path) -> tuple[dict[str, ReadProblem], list[str]]:
    """Return the problems of a folder by key, from listing and reading, and the keys that were read."""
    problems: dict[str, ReadProblem] = {}
    read: list[str] = []
    with store_at(folder, LIMITS) as store:
        for item in store.entries():
            if isinstance(item, Entry):
                try:
                    read_snapshot(store, item)
                    read.append(item.key)
                    continue
                except Unreadable as error:
                    problems[item.key] = ReadProblem(item.key, error.message, error.kind)
                    continue
            problems[item.key] = item
    return problems, read


def test_each_broken_file_has_a_reason_and_the_others_are_read(tmp_path: Path) -> None:
    folder = copy_of("1.15.30/flow", tmp_path)
    for name, (data, _, _) in BROKEN.items():
        (folder / "main" / f"{name}.json").write_bytes(data)
    before = hashes_below(folder)
    started = time.monotonic()
    problems, read = read_folder(folder)
    assert time.monotonic() - started < 10
    assert len(read) == 2
    for name, (_, kind, text) in BROKEN.items():
        problem = problems[f"main/{name}.json"]
        assert (problem.kind, text in str(problem.reason)) == (kind, True), (name, problem)
    assert len(problems) == len(BROKEN)
    assert hashes_below(folder) == before


@pytest.mark.parametrize("length", range(0, len(WHOLE), 97))
def test_a_truncated_file_is_not_a_checkpoint(length: int, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_bytes(WHOLE[:length])
    problems, read = read_folder(tmp_path)
    assert read == []
    assert problems["cut.json"].kind == "writing"


@pytest.mark.parametrize(
    "text",
    [
        b"1e999",
        b'"\\ud83d\\ude00"',
        b"123456789012345678901234567890",
        b"-0",
        b'{"a": 1, "a": 2}',
        b'"\\u0000"',
        b"7" * 3999,
        b'"' + b"7" * 10_000 + b'"',
        b'{"' + b"7" * 10_000 + b'": "\\"7"}',
    ],
)
def test_unusual_but_valid_json_is_read(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(with_state(text))
    assert read_folder(tmp_path) == ({}, ["odd.json"])


@pytest.mark.parametrize("field", ["crewai_version", "branch", "parent_id", "trigger"])
@pytest.mark.parametrize("value", [5, [], {}, True, 1.5, None])
def test_a_field_of_another_type_is_ignored(field: str, value: object, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, "20261120T233049_16755e62")
    body = json.loads(path.read_text()) | {field: value}
    body["entities"][0]["checkpoint_completed_methods"] = value
    path.write_text(json.dumps(body))
    with store_at(tmp_path) as store:
        (entry,) = store.entries()
        assert isinstance(entry, Entry)
        assert read_snapshot(store, entry).name == "MyFlow"


def test_old_encodings_are_read(tmp_path: Path) -> None:
    text = json.dumps(one_checkpoint(), ensure_ascii=False).replace("MyFlow", "Überflug “neu”")
    (tmp_path / "20260401T101010_aaaaaaaa.json").write_bytes(text.encode("cp1252"))
    with store_at(tmp_path) as store:
        (entry,) = store.entries()
        assert isinstance(entry, Entry)
        assert read_snapshot(store, entry).name == "Überflug “neu”"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_out(path: Path) -> None:
    outside = path.parent.parent / "outside.json"
    outside.write_bytes(WHOLE)
    path.symlink_to(outside)


def folder_named_like_a_file(path: Path) -> None:
    path.mkdir()
    (path / "20260101T000000_aaaaaaaa.json").write_bytes(WHOLE)


@pytest.mark.parametrize("make", [pipe, unix_socket, link_to_itself, link_out])
def test_special_files_are_problems_and_not_opened(make: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    write_checkpoint(folder, "20261120T233049_16755e62")
    make(folder / "odd.json")
    problems, read = read_folder(folder)
    assert len(read) == 1
    assert problems["odd.json"].kind == "foreign"


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "20261120T233049_16755e62")
    (tmp_path / "main" / "again").symlink_to(tmp_path)
    (tmp_path / "root").symlink_to("/")
    problems, read = read_folder(tmp_path)
    assert (problems, len(read)) == ({}, 1)


def test_a_folder_named_like_a_file_is_a_branch(tmp_path: Path) -> None:
    folder_named_like_a_file(tmp_path / "odd.json")
    assert read_folder(tmp_path) == ({}, ["odd.json/20260101T000000_aaaaaaaa.json"])


def test_a_key_that_leads_outside_finds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (tmp_path / "outside.json").write_bytes(WHOLE)
    (folder / "link").symlink_to(tmp_path)
    with store_at(folder) as store:
        for key in (
            "../outside.json",
            "link/outside.json",
            "/etc/x.json",
            "a/../../outside.json",
            "absent.json",
            "\0.json",
        ):
            assert store.entry(key) is None


def test_an_unprintable_name_is_listed_as_a_problem(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"odd\xff.json")).write_bytes(WHOLE)
    (tmp_path / "two\nlines.json").write_bytes(WHOLE)
    problems, read = read_folder(tmp_path)
    assert read == []
    assert len(problems) == 2
    for key in problems:
        key.encode()
