"""A digest of a row of checkpoints, which differs for a changed row with the same fingerprint."""

import hashlib
from collections.abc import Sequence

# The columns besides the checkpoint that are part of the digest. A table may lack any of them.
COLUMNS = ("created_at", "parent_id", "branch")


def row_digest(kind: str, data: bytes, columns: Sequence[bytes | float | None]) -> str:
    """The digest of a row: the type and bytes of its data, and the values of ``COLUMNS``, texts as bytes."""
    digest = hashlib.sha256(f"{kind}\0{tuple(columns)!r}\0".encode())
    digest.update(data)
    return digest.hexdigest()


# Far longer than any id, date or branch.
MAX_SHORT_BYTES = 4096
