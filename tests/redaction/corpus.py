"""Secrets in many notations, and texts that resemble them, with secrets generated at run time.

`corpus/*.txt` hold one text below each heading. `<<alnum24>>` and the like become a made-up secret, so that
no scanner reports these files.
"""

import random
import re
import string
import zlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")
_SLOT = re.compile(r"<<([a-z0-9]+?)_?(\d*)>>")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "base36": string.ascii_lowercase + string.digits,
    "caps36": string.ascii_uppercase + string.digits,
    "hex": "0123456789abcdef",
    "caphex": "0123456789ABCDEF",
    "lower": string.ascii_lowercase,
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "digits": string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "base58": _BASE58,
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
# Secrets of these always have a digit.
MIXED = ("alnum", "hex", "upper", "b64", "base58")
PASSWORDS = ("Kanarie7vogel", "hunter2!", "k4n@rieVogel", "S3cure_Pa55", "correcthorse9battery")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text and its secrets."""

    name: str
    text: str
    secrets: tuple[str, ...] = ()


def samples(file: str) -> list[Sample]:
    """Return the texts of one file of the corpus, in order."""
    parts = re.split(r"^## (.+)\n", (FOLDER / file).read_text(), flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [_sample(name, text.removesuffix("\n")) for name, text in pairs]


def _sample(name: str, template: str) -> Sample:
    chance = random.Random(zlib.crc32(name.encode()))
    secrets: list[str] = []

    def made(slot: re.Match[str]) -> str:
        secrets.append(_secret(slot[1].rstrip(string.digits) or slot[1], slot[0], chance))
        return secrets[-1]

    text = _SLOT.sub(made, template)
    return Sample(name, text, tuple(secrets))


def _secret(kind: str, slot: str, chance: random.Random) -> str:
    if kind == "pw":
        return chance.choice(PASSWORDS)
    known = next(name for name in sorted(ALPHABETS, key=len, reverse=True) if slot[2:].startswith(name))
    length = int(slot[2 + len(known) : -2].lstrip("_"))
    letters = ALPHABETS[known]
    made = "".join(chance.choices(letters, k=length))
    if length < 12 or known not in MIXED:
        return made
    # Letters alone would be a word, digits alone a number.
    return f"7{made[1:-1]}a" if known == "hex" else f"7{made[1:-2]}aB"
