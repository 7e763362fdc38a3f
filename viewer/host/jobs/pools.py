"""Pools: hosts recognise the locations of the others, run their jobs, and read those of hosts that are away.

The same path may lead to another folder on another machine. A host recognises a folder by its inode and its
newest checkpoints, whose files have an inode and times as well, and a database by the address of its server
and its newest checkpoints. The project has to have the same source and secrets. Nothing is written there.
"""

import hashlib
import logging
import re
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from django.conf import settings
from django.db import transaction

from viewer.data_folder.locks import exclusive_transaction
from viewer.host.confined import confined
from viewer.host.jobs.code import MAX_FILES, name_of, sources_of
from viewer.host.jobs.environment import runnable
from viewer.host.locations.adding import permitted_path
from viewer.host.locations.sources import address_at, address_of_database
from viewer.host.project_secrets import secrets_for
from viewer.host.reading.location_reader import LocationReader, open_reader
from viewer.host_requests import HostRefusal
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Checkpoint, Host, Location, PoolMember, Project
from viewer.stores import Identity, is_uri, libpq_environment, name_in
from viewer.stores.protocol import Entry, LocationUnreadable

logger = logging.getLogger(__name__)

# How many of the newest checkpoints have to be the same.
COMPARED = 20
# Servers at these addresses are on the machine itself, so they differ between machines.
LOCAL = ("localhost", "127.", "::1", "/", "@")
# What may name a server in files of the machine.
UNCLEAR, UNCLEAR_VARIABLES = {"service", "servicefile"}, {"PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR"}
_VALUE = re.compile(r"(\w+)\s*=\s*([^\s'\\]+)(?=\s|$)")


# What a member stores.
FACTS = ("identity", "server_digest", "project_digest", "refusal")


class NotRecognised(UserFacingError):
    """It is not certain that a location is the same one here as on its host. The message says why."""


def recognise(location: Location, own: Host) -> PoolMember:
    """Return and store what this machine has at the path of a location, with the reason not to run there."""
    known = PoolMember.objects.filter(location=location)
    found = known.filter(host=own).first() or PoolMember(location=location, host=own)
    former = [getattr(found, name) for name in FACTS]
    found.refusal = None
    try:
        _describe(found)
        if location.host_id != own.pk:
            _compare(found, known.filter(host=location.host_id).first())
    except (NotRecognised, HostRefusal, LocationUnreadable) as error:
        found.refusal = error.message
    except OSError as error:
        found.refusal = UserMessage("import.read_failed", {"why": str(error.strerror or error)})
    values = {name: getattr(found, name) for name in FACTS}
    if not found.pk or list(values.values()) != former:
        # Each write wakes the workers and the open pages.
        PoolMember.objects.update_or_create(location=location, host=own, defaults=values)
    return found


def _describe(found: PoolMember) -> None:
    """Set what is at the path here. Raises NotRecognised, HostRefusal, LocationUnreadable, OSError."""
    location = found.location
    with _opened(location) as reader:
        found.identity = str(reader.identity or "")
        if reader.kind != location.store_kind:
            raise NotRecognised("pool.other_location", path=location.path)
        if location.host_id != found.host_id:
            _compare_checkpoints(location, reader)
    found.server_digest = _server_digest(location)
    if location.project:
        found.project_digest = _project_digest(runnable(location.project))


def _opened(location: Location) -> AbstractContextManager[LocationReader]:
    if location.store_kind == Location.StoreKind.POSTGRESQL:
        return open_reader(address_of_database(name_in(location.path)))
    path = permitted_path(location.path, settings.CHECKPOINT_ROOTS)
    if str(path) != location.path:
        raise NotRecognised("pool.other_location", path=location.path)
    return open_reader(address_at(path))


def _compare_checkpoints(location: Location, reader: LocationReader) -> None:
    """Raise NotRecognised unless the newest known checkpoints are the same here."""
    present = location.checkpoints.exclude(Checkpoint.IS_SCRATCH)
    newest = present.filter(state="present").order_by("-pk")[:COMPARED]
    rows = list(newest.values_list("source_key", "fingerprint"))
    if not rows:
        raise NotRecognised("pool.no_checkpoints")
    for key, fingerprint in rows:
        entry = reader.entry(key)
        is_same = isinstance(entry, Entry) and (not location.is_local or entry.fingerprint == fingerprint)
        if not is_same:
            raise NotRecognised("pool.other_location", path=location.path)


def _compare(found: PoolMember, reader: PoolMember | None) -> None:
    """Raise NotRecognised unless the host that reads the location has the same."""
    location = found.location
    if reader is None or reader.refusal:
        raise NotRecognised("pool.not_compared", host=location.host.name)
    if location.is_local and _inode(found.identity) != _inode(reader.identity):
        raise NotRecognised("pool.other_location", path=location.path)
    if found.server_digest != reader.server_digest:
        raise NotRecognised("pool.other_server", path=location.path)
    if found.project_digest != reader.project_digest:
        raise NotRecognised("pool.other_project", host=location.host.name)


def _inode(text: str) -> int | None:
    """The inode, which a network folder has on every machine. The number of its device differs."""
    identity = Identity.parse(text)
    return identity.inode if identity else None


def _server_digest(location: Location) -> str:
    """A digest of the address of a database's server; empty for a folder. Raises NotRecognised."""
    if location.is_local:
        return ""
    given = _connection_values(settings.POSTGRESQL_LOCATIONS[name_in(location.path)])
    variables = libpq_environment()
    host = given.get("hostaddr") or given.get("host") or variables.get("PGHOST", "")
    is_local = any(not one or one.startswith(LOCAL) for one in host.lower().split(","))
    if is_local or given.keys() & UNCLEAR or variables.keys() & UNCLEAR_VARIABLES:
        raise NotRecognised("pool.local_server", path=location.path)
    port = given.get("port") or variables.get("PGPORT", "5432")
    name = given.get("dbname") or variables.get("PGDATABASE", "")
    return hashlib.sha256(f"{host.lower()} {port} {name}".encode()).hexdigest()


def _connection_values(text: str) -> dict[str, str]:
    """The values of a connection string. What is not understood is in the value ``service``.

    Only readers load libpq, which would parse it.
    """
    if is_uri(text):
        try:
            parts = urlsplit(text)
            values = {"host": parts.hostname or "", "port": str(parts.port or ""), "dbname": parts.path[1:]}
        except ValueError:
            return {"service": text}
        more = dict(parse_qsl(parts.query, keep_blank_values=True))
        # Several hosts, or values that override those of the address.
        is_unclear = "," in parts.netloc or more.keys() & {*values, *UNCLEAR, "hostaddr"}
        return {"service": text} if is_unclear else values
    found = _VALUE.findall(text)
    return dict(found) if not _VALUE.sub("", text).strip() else {"service": text}


def _project_digest(project: Project) -> str:
    """A digest of the source and the secrets of a project. Raises NotRecognised, OSError."""
    found, is_all = sources_of(project)
    if not is_all:
        raise NotRecognised("pool.large_project", most=MAX_FILES)
    digest = hashlib.sha256(_secrets_digest(secrets_for(project), str(project.pk)))
    folder = Path(project.folder)

    def read() -> None:
        for path in filter(Path.is_file, found):
            digest.update(f"\0{name_of(path, folder)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())

    confined(folder, read)
    return digest.hexdigest()


@lru_cache(maxsize=100)
def _secrets_digest(secrets: tuple[str, ...], salt: str) -> bytes:
    """A digest that is slow to brute-force. It has no key, because the hosts may not share one."""
    if not secrets:
        return b""
    return hashlib.scrypt("\0".join(secrets).encode(), salt=salt.encode(), n=2**14, r=8, p=1)


# The worker of each host of a pool.


def poll_pools() -> None:
    """Recognise the locations of this machine's pools, and take over those of hosts that are away."""
    own = Host.own()
    if own is None:
        return
    for location in Location.objects.filter(pool__hosts=own).select_related("project", "host"):
        found = recognise(location, own)
        is_read = location.host == own or Host.objects.available().filter(pk=location.host_id).exists()
        if not (is_read or found.refusal or own.is_drained) and take_over(location, own):
            logger.warning("%s is read by %s instead of %s", location, own, location.host)


def take_over(location: Location, own: Host) -> bool:
    """Read a location, its project and the project's other locations here from now on.

    Return False if their host is back, if another one was faster, or if one of them is not recognised.
    """
    with exclusive_transaction("pools"):
        group = list(location.with_same_project.select_for_update())
        seen = {one.location_id: one for one in PoolMember.objects.filter(host=own, refusal__isnull=True)}
        is_known = all(one.pk in seen and one.pool_id == location.pool_id for one in group)
        taken = Location.objects.filter(host=own, path__in=[one.path for one in group])
        if not (group and is_known) or taken.exists():
            return False
        for one in group:
            gone = Location.objects.filter(pk=one.pk, host=location.host_id, pool=location.pool_id)
            gone = gone.exclude(host__in=Host.objects.available())
            if not gone.update(host=own, identity=seen[one.pk].identity, replaced_by=""):
                transaction.set_rollback(True)
                return False
        Project.objects.filter(locations__in=group).update(host=own)
        return True


def refusal_to_run(location: Location) -> UserMessage | None:
    """Return why this machine must not start a job of a location that another one reads, if it must not."""
    # Also if it is in no pool any more: only this machine may have the draft that the job starts from.
    of_others = Location.objects.exclude(host__in=Host.objects.here())
    found = of_others.select_related("project", "host").filter(pk=location.pk).first()
    own = Host.own() if found else None
    return recognise(found, own).refusal if found and own else None
