"""Imports collections from hostile JSON Lines.

Passes if each file is imported whole or not at all, with the numbers of its faulty lines, within the limits;
if no item that is there changes, if no secret is stored, if pages and exports show what was imported, and if
what is exported can be imported again.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from quality.fuzz.malformed_files import BAD_BYTES, BAD_VALUES, ODD_VALUES
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder

FILES, LINES, MAX_SECONDS = 200, 30, 20.0
SECRET = "sk-proj-" + "a1B2" * 10
TEXTS: tuple[Any, ...] = (
    *("", " ", "a", "x" * 300, "x" * 60_000, SECRET, f"password: {SECRET}", "<script>alert(1)</script>"),
    *("\u202e", "\u2028\x85", "\x1b[2K", "a\0b", "../../etc/passwd", "{{ 7*7 }}", "messages:" + "9" * 5000),
    *("messages:-1", "é" * 250, "[x](javascript:alert(1))", None, 7, 1.5, True, [], {}, ["a"], {"a": 1}),
)


def lines_to_import(chance: random.Random) -> Iterator[bytes]:
    """Yield lines: valid ones, those with odd or wrong values, broken JSON, and deep or large ones."""
    for _ in range(chance.randrange(1, LINES)):
        kind = chance.choice(("checkpoint", "message", "call"))
        line: dict[str, Any] = {"kind": kind, "location": str(uuid4()), "run": "r", "checkpoint": "c"}
        line |= {} if kind == "checkpoint" else {"part": "messages:1"}
        line |= {"note": chance.choice(TEXTS[:7])[:200], "expected": chance.choice(TEXTS[:7])[:200]}
        how = chance.randrange(40)
        if how == 0:
            line[chance.choice([*line, "title", "address", "odd"])] = chance.choice(TEXTS)
        elif how == 1:
            line.pop(chance.choice(list(line)))
        data = json.dumps(line).encode()
        if how == 2:
            data = data.replace(b'"r"', chance.choice(BAD_VALUES + ODD_VALUES))
        elif how == 3:
            at = chance.randrange(len(data))
            data = data[:at] + chance.choice(BAD_BYTES) + data[at:]
        elif how == 4:
            data = b'{"note": ' + chance.choice((b"[", b'{"a":')) * 200_000
        elif how == 5:
            data = data[: chance.randrange(len(data))]
        yield data


def main() -> int:
    """Print what became of the files. Return 1 if anything was wrong."""
    with temporary_data_folder():
        return attack()


def attack() -> int:
    """Import the files in turn, and look at the collection after each."""
    from django.urls import reverse

    from viewer.models import Collection
    from viewer.records.collections import (
        NotCollected,
        NotImported,
        collection_named,
        import_items,
        items_in,
        lines_of,
    )

    client, chance = logged_in(is_superuser=False), random.Random(24)
    faults, seen = list[str](), Counter[str]()
    for number in range(FILES):
        collection = collection_named(f"c{number % 8}", None)
        before = list(lines_of(collection, ""))
        data, start = b"\n".join(lines_to_import(chance)), time.monotonic()
        try:
            import_items(collection, items_in(data), None)
            seen["imported"] += 1
        except NotImported as error:
            seen["refused by line"] += 1
            count = data.count(b"\n") + 1
            faults += [f"{number}: line {at}" for at, _message in error.errors if not 0 < at <= count]
            faults += [f"{number}: {message}" for _at, message in error.errors if SECRET in str(message)]
            faults += [] if list(lines_of(collection, "")) == before else [f"{number}: imported in part"]
        except NotCollected:
            seen["refused"] += 1
        after = list(lines_of(collection, ""))
        faults += [] if after[: len(before)] == before else [f"{number}: changed what was there"]
        faults += [f"{number}: a secret"] if SECRET in "".join(after) else []
        faults += [f"{number}: slow"] if time.monotonic() - start > MAX_SECONDS else []
    for collection in Collection.objects.all():
        exported = list(lines_of(collection, ""))
        for address in (collection.get_absolute_url(), reverse("collection-export", args=[collection.pk])):
            answer = client.get(address)
            is_safe = SECRET not in answer.content.decode() and b"<script>alert" not in answer.content
            is_safe |= address.endswith("export/")
            faults += [] if answer.status_code == 200 and is_safe else [f"{address}: {answer.status_code}"]
        copy = collection_named(f"copy of {collection}", None)
        import_items(copy, items_in("".join(exported).encode()), None)
        faults += [] if list(lines_of(copy, "")) == exported else [f"{collection}: another copy"]
    print_heading("files", "count")
    for what, count in seen.items():
        print_row(what, count)
    for fault in faults[:20]:
        print(fault)
    return 1 if faults or len(seen) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
