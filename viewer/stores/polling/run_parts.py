"""Parts of the list of runs, so that a store lists only the parts that differ from what is stored.

The digest of a run's key names its part. The digest of a part is made from the keys of its runs and their
newest checkpoints, in the order of the keys. A query of ``PostgresqlTables`` computes the same digests.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping


def part_of(key: str) -> str:
    """The part that a run with this key is in."""
    return _digest(key)[:2]


def digests_of(heads: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The digest of each part that has runs, from their keys and newest checkpoints."""
    parts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, head in heads:
        parts[part_of(key)].append((key, head))
    return {
        part: _digest("\n".join(f"{key} {head}" for key, head in sorted(runs)))
        for part, runs in parts.items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
