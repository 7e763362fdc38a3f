"""Copies of what a run from a checkpoint needs of its store, from which another host starts it."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import zstandard

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host.jobs.savers import copy_thread, is_in_saver, output_of
from viewer.host.locations.project_secrets import secrets_for
from viewer.host.locations.sources import NotConfigured, read_limits
from viewer.host.permitted import refuse_source
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.host_requests import CopyStore, HostRefusal, JobRefused, NotReadable, ask
from viewer.models import Checkpoint
from viewer.redaction import MARKER
from viewer.stores.errors import LocationUnreadable
from viewer.stores.packing import Packed, compressed
from viewer.stores.protocol import Entry

# No copy of a store is larger (forkline_langgraph/sending.py).
MAX_STORE_BYTES = 32 * 1024**2
# What was redacted in a checkpoint, could not be decoded, or is shown without its bytes.
HIDDEN = re.compile(rb'%s|"__opaque__"|"__type__":"(bytes|numpy\.ndarray)"' % re.escape(MARKER).encode())


class _Written(msgspec.Struct):
    """What a program says about the SQLite file that it has written."""

    checkpoints: int


def sends_store(checkpoint: Checkpoint) -> bool:
    """Whether a run on another host starts from a copy of what it needs of the checkpoint's store."""
    return kind_of(engine_of(checkpoint.location), checkpoint.entity).sends_store


def source_in(store: str, checkpoint: Checkpoint) -> str:
    """The source of a checkpoint in this copy of its store."""
    return f"{store}#{checkpoint.source.rpartition('#')[2]}"


def store_of_other_host(checkpoint: Checkpoint) -> bytes:
    """The copy that the host of the checkpoint makes. Raises JobRefused."""
    try:
        data = ask(CopyStore(checkpoint.pk))
    except HostRefusal as refused:
        raise JobRefused(refused.message) from None
    try:
        # Any machine can write the reply.
        if 0 <= zstandard.frame_content_size(data) <= MAX_STORE_BYTES:
            return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        pass
    raise JobRefused("saver.malformed")


def store_to_send(checkpoint: Checkpoint) -> bytes:
    """A compressed SQLite file with what a run from a checkpoint needs of its store. Raises NotReadable.

    Every checkpoint in it is read as those of a location are, and nothing may have to be redacted.
    """
    try:
        refuse_source(checkpoint)
        with TemporaryDirectory(prefix="forkline-") as folder:
            target = Path(folder).resolve() / "copied.sqlite"
            output = _written_store(checkpoint, str(target))
            _refuse_redacted(checkpoint, target, msgspec.json.decode(output, type=_Written).checkpoints)
            return compressed(target.read_bytes())
    except (JobRefused, LocationUnreadable, NotConfigured) as refused:
        raise NotReadable(refused.message) from None
    except OSError as error:
        raise NotReadable("saver.not_started", why=str(error.strerror or error)) from None
    except msgspec.MsgspecError:
        raise NotReadable("saver.malformed") from None


def _written_store(checkpoint: Checkpoint, target: str) -> bytes:
    store, _hash, key = checkpoint.source.rpartition("#")
    if is_in_saver(checkpoint):
        return copy_thread(checkpoint.location, key, target)
    request = {"store": store, "key": key, "id": checkpoint.checkpoint_id, "target": target}
    given = msgspec.json.encode(request)
    return output_of(checkpoint.location, lambda _project, end: ["send", end], given, umask=0o077)


def _refuse_redacted(checkpoint: Checkpoint, store: Path, count: int) -> None:
    """Raise NotReadable if a checkpoint in a store has a secret, or a value that cannot be searched.

    Raises LocationUnreadable, and JobRefused for the environment file.
    """
    location = checkpoint.location
    secrets = secrets_for(location.project)
    address = LocationAddress(store, read_limits(), [store.parent], None, secrets, location.engine)
    with open_reader(address) as reader:
        found = reader.index(checkpoint.run.outermost.key).snapshots
        read = reader.read_all([Entry(one.key, one.fingerprint, one.size) for one in found], 1)
        unpack = zstandard.ZstdDecompressor().decompress
        bodies = [unpack(one.data) for one in read if isinstance(one, Packed)]
    names = "".join(one.key for one in found)
    if len(bodies) != count or MARKER in names or any(HIDDEN.search(body) for body in bodies):
        raise NotReadable("other_host.redacted_store")
