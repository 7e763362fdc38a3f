"""Generates malformed files from one checkpoint. The same seed gives the same files."""

import gzip
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

# Invalid UTF-8, and escapes of invalid code points.
BAD_BYTES = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\x81\x8d")
BAD_VALUES = (
    *(b"NaN", b"Infinity", b"-Infinity", b"+1", b"01", b".5", b"1.", b"0x10", b"1_000", b"undefined", b"'x'"),
    *(b'"\\ud800"', b'"\\udc00 x"', b'"\\ud800\\ud800"', b'"\\u12"', b'"\\x41"', b'"\x00"', b'"\n"', b'"x'),
    *(b"tru", b"[1,]", b'{"a":1,}', b'{"a" 1}', b"{1: 2}", b"[1 2]", b"/* */ 1", b"(1)", b"", b",", b"]"),
)
# Valid but unusual JSON: it may be imported, or reported with the right reason.
ODD_VALUES = (
    *(b'{"a": 1, "a": 2}', b"1e999", b"-0", b'"\\u0000"', b"1" * 3999, b'"\\ud83d\\ude00"', b"1E-9999"),
    *(b'{"": {"": {"": 1}}}', b"[[],[],{}]", b'"\xe2\x80\xa8"'),
)
STARTS = (
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\x00",
        b"PK\x03\x04",
        b"%PDF-1.7",
        b"\x1f\x8b",
        b"\x89PNG",
    ),
)
OTHERS = (
    *(b"[]", b"1", b'"x"', b"null", b"true", b"{}", b'{"entities": 5}'),
    b'{"entities": [], "event_record": 1}',
)

Made = tuple[str, bytes]


def malformed_files(whole: bytes, count: int, seed: int) -> Iterator[Made]:
    """Yield ``count`` files with their kind: every truncation of the checkpoint, then the other kinds."""
    for length in range(min(len(whole), count)):
        yield "cut short", whole[:length]
    chance = random.Random(seed)
    kinds = tuple(KINDS.items())
    for number in range(count - len(whole)):
        kind, made = kinds[number % len(kinds)]
        yield kind, made(whole, chance)


def with_value(whole: bytes, value: bytes, chance: random.Random) -> bytes:
    """Return the checkpoint with another field in one of its objects."""
    positions = [at for at in range(len(whole)) if whole[at : at + 1] == b"{"]
    at = chance.choice(positions[:200]) + 1
    return whole[:at] + b'"odd": ' + value + b", " + whole[at:]


def flipped(whole: bytes, chance: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 8, 200))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def bad_bytes(whole: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(whole))
    return whole[:at] + chance.choice(BAD_BYTES) + whole[at:]


def deep(whole: bytes, chance: random.Random) -> bytes:
    levels = chance.choice((201, 1_000, 10_000, 100_000))
    start, end = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    inner = b"" if start == b"[" else b"1"
    value = start * levels + inner + end * chance.choice((levels, levels, levels - 1, 0))
    return chance.choice((value, with_value(whole, value, chance)))


def cut_out(whole: bytes, chance: random.Random) -> bytes:
    first = chance.randrange(len(whole))
    return whole[:first] + whole[first + chance.randrange(1, 500) :]


def twice(whole: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(whole))
    return whole[:at] + whole[chance.randrange(at + 1) :]


def long_number(whole: bytes, chance: random.Random) -> bytes:
    digits = bytes(chance.choices(b"123456789", k=chance.choice((4_001, 5_000, 100_000))))
    return with_value(whole, chance.choice((b"", b"-", b"0.")) + digits, chance)


def packed(whole: bytes, chance: random.Random) -> bytes:
    data = gzip.compress(whole, chance.randrange(1, 10), mtime=0)
    return data[: chance.choice((len(data), len(data) // 2, 3))]


def encoded(whole: bytes, chance: random.Random) -> bytes:
    encoding = chance.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037"))
    return whole.decode().encode(encoding)


def other_type(whole: bytes, chance: random.Random) -> bytes:
    """Return the checkpoint with a field of another type."""
    names = (b"entities", b"event_record", b"nodes", b"branch", b"trigger", b"parent_id")
    name = b'"%s": ' % chance.choice(names)
    value = chance.choice((b"5", b"[]", b"{}", b"null", b'"x"', b"[[[]]]", b'{"x": 5}', b"1e400", b"true"))
    return whole.replace(name, name + value + b', "was": ', 1)


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bytes flipped": flipped,
    "a part removed": cut_out,
    "a part repeated": twice,
    "invalid UTF-8": bad_bytes,
    "invalid values": lambda whole, chance: with_value(whole, chance.choice(BAD_VALUES), chance),
    "unusual, but valid": lambda whole, chance: with_value(whole, chance.choice(ODD_VALUES), chance),
    "deeply nested": deep,
    "long numbers": long_number,
    "other first bytes": lambda whole, chance: chance.choice(STARTS) + whole[chance.choice((0, 0, 1, 8)) :],
    "compressed": packed,
    "another encoding": encoded,
    "other JSON": lambda whole, chance: chance.choice(OTHERS) + b" " * chance.randrange(50),
    "another type": other_type,
    "blank": lambda whole, chance: bytes([chance.choice(b" \n\t\0")]) * chance.choice((0, 1, 4096)),
    "noise": lambda whole, chance: chance.randbytes(chance.choice((1, 100, 20_000))),
}


def make_no_files(folder: Path) -> dict[str, str]:
    """Create entries that are not regular files, named by their kind."""
    made: dict[str, str] = {}
    for number in range(25):
        os.mkfifo(folder / f"pipe {number}.json")
        (folder / f"loop {number}.json").symlink_to(f"loop {(number + 1) % 25}.json")
        (folder / f"out {number}.json").symlink_to("/etc/passwd")
        (folder / f"gone {number}.json").symlink_to("nowhere.json")
        for kind in ("pipe", "loop", "out", "gone"):
            made[f"{kind} {number}.json"] = "not a file"
    return made
