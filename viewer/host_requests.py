"""What the rest of Forkline asks of a host: the machine that has the locations, projects and runs.

Only ``viewer.host`` opens a location, reads a project's files, or starts, follows and ends a process. All
other packages call ``ask`` with one of the requests below. Requests and replies are plain values that can
be sent as bytes: rows are named by their keys, and no reply is an open handle. The setting ``HOST`` names the
function that answers: ``viewer.host.routing.answer`` does so in this process, or sends the request to the
machine that has what it names.

HostRefusal             the host does not do what was asked; the message says why
├── HostAway            the host does not answer
├── UnknownLocation     nothing at this path can be imported, or it must not be opened
├── WouldBeLost         some stored data of the location exists nowhere else
├── NotReadable         a checkpoint has no stored copy and cannot be read at its source
├── PruneRefused        nothing was deleted
└── JobRefused          a job cannot be started
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, cast, get_args

import msgspec
from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from viewer.engines import engine_named
from viewer.engines.entry_points import EntryPoint, EventGroup, InputName
from viewer.engines.plan import Edits
from viewer.formats import count_text
from viewer.messages.message import UserFacingError, UserMessage, plain_text
from viewer.validation import is_storable

Reply_co = TypeVar("Reply_co", covariant=True)


class Request(msgspec.Struct, Generic[Reply_co], frozen=True, tag=True):
    """A request to a host. The type argument of a subclass is the type of its reply.

    Raises UnknownLocation for a text that bytes cannot hold, such as a file name that is not UTF-8.
    """

    def __post_init__(self) -> None:
        texts = (getattr(self, name) for name in self.__struct_fields__)
        if not all(is_storable(text) for text in texts if isinstance(text, str)):
            raise UnknownLocation(_("This path cannot be opened."))


class ImportCounts(msgspec.Struct, frozen=True):
    """How far an import is: the files and rows found so far, those that are due, and those that were read."""

    found: int = 0
    due: int = 0
    read: int = 0


Report = Callable[[ImportCounts], None]


def ask(request: Request[Reply_co], report: Report | None = None, host: int | None = None) -> Reply_co:
    """Return the host's reply. Raises HostRefusal. ``report`` is called with the progress of an import.

    ``host`` is the primary key of the host, for a request that names no row; this machine if it is None.
    """
    replies = _replies.get()
    key = (host, encoded(request)) if replies is not None else None
    if replies is not None and key in replies:
        return cast(Reply_co, replies[key])
    reply: Reply_co = import_string(settings.HOST)(request, report, host)
    if replies is not None and key is not None:
        replies[key] = reply
    return reply


_replies: ContextVar[dict[tuple[int | None, bytes], Any] | None] = ContextVar("replies", default=None)


@contextmanager
def each_asked_once() -> Iterator[None]:
    """Within it, equal requests get the same reply. For plans of several runs, which only read."""
    token = _replies.set({})
    try:
        yield
    finally:
        _replies.reset(token)


# The types that an input may have, by the names that are sent for them.
_TYPES = {one.__name__: one for one in (str, int, float, bool, list, dict)}


def encoded(value: Any) -> bytes:
    """Return a request or a reply as bytes."""
    return msgspec.msgpack.encode(value, enc_hook=lambda one: one.__name__)


def decoded(data: bytes, kind: Any) -> Any:
    """Return the request or reply of this type that ``encoded`` made these bytes of. Raises DecodeError."""
    return msgspec.msgpack.decode(data, type=kind, dec_hook=lambda _kind, name: _TYPES[name])


def decoded_reply(data: bytes, request: Request[Any]) -> Any:
    """Return the reply to this request that ``encoded`` made these bytes of. Raises DecodeError."""
    kind = reply_type(type(request))
    if isinstance(request, ReadSource):
        kind = engine_named(request.engine).source_type
    return decoded(data, kind)


def reply_type(request: type[Request[Any]]) -> Any:
    """Return the type of the reply to requests of this type."""
    (base,) = request.__orig_bases__  # type: ignore[attr-defined]
    (found,) = get_args(base)
    return found


class HostRefusal(UserFacingError):
    """The host does not do what was asked. The message says why."""

    @classmethod
    def saying(cls, message: UserMessage) -> Self:
        """Return a refusal of this class with this message."""
        refusal = cls.__new__(cls)
        UserFacingError.__init__(refusal, message)
        return refusal


class HostAway(HostRefusal):
    """The host does not answer."""


class UnknownLocation(HostRefusal):
    """Nothing at this path can be imported, or it must not be opened. The message is a sentence."""

    def __init__(self, text: object) -> None:
        super().__init__(plain_text(text))


class WouldBeLost(HostRefusal):
    """Some stored data of the location exists nowhere else. The message says which."""

    def __init__(self, text: object) -> None:
        super().__init__(plain_text(text))


class NotReadable(HostRefusal):
    """A checkpoint has no stored copy that can be shown, nor a readable source. The message says why."""


class PruneRefused(HostRefusal):
    """The location cannot be pruned, or the list is not the one that was confirmed. Nothing was deleted."""


class JobRefused(HostRefusal):
    """A job cannot be started. The message says why and what to do."""


# Checkpoints


class Body(msgspec.Struct, frozen=True):
    """The compressed, redacted JSON of a checkpoint, by the primary key of its row."""

    checkpoint: int
    data: bytes


class ReadBody(Request[bytes], frozen=True):
    """Read a checkpoint at its source: its compressed, redacted JSON. Raises NotReadable."""

    checkpoint: int


class RevealValue(Request[str], frozen=True):
    """Read the hidden text at a JSON Pointer of a checkpoint, at its source on this machine.

    No other machine may ask, since its reply would be stored. Raises NotReadable.
    """

    checkpoint: int
    pointer: str


class ReadBodies(Request[list[Body]], frozen=True):
    """Read checkpoints of one location at their source. Those that cannot be read are left out."""

    location: int
    checkpoints: list[int]


class CopyStore(Request[bytes], frozen=True):
    """Return a compressed store with what a run from a checkpoint needs, for another host.

    Raises NotReadable, also if anything would have to be redacted in it.
    """

    checkpoint: int


# Locations


class FoundStore(msgspec.Struct, frozen=True):
    """A store that is no location yet. ``count`` is of checkpoints, or of runs where a store lists these.

    If ``has_more``, at least ``count``. ``name`` is the English name of a store that a program writes by
    default, and ``size`` the bytes of a file. A store outside the allowed folders is not opened; ``setting``
    allows it. If not ``is_readable``, Forkline never reads it.
    """

    path: str
    engine: str
    count: int = 0
    has_more: bool = False
    counts_runs: bool = False
    name: str = ""
    size: int = 0
    setting: str = ""
    is_readable: bool = True

    @property
    def counted(self) -> str:
        """The count as text, such as ``1,000+``."""
        return f"{count_text(self.count)}{'+' if self.has_more else ''}"


class ImportResult(msgspec.Struct, frozen=True):
    """The result of an import. ``read_error`` says why the location could not be read.

    ``unavailable`` are the keys of entries that could not be read now. The next import tries again.
    """

    read: int = 0
    added: int = 0
    changed: int = 0
    pruned: int = 0
    problems: int = 0
    read_error: UserMessage | None = None
    unavailable: list[str] = []
    is_news: bool = False
    is_cancelled: bool = False


class FindStores(Request[list[FoundStore]], frozen=True):
    """Find the stores in the allowed folders that are no locations."""


class CompletePath(Request[list[str]], frozen=True):
    """Return the paths in the allowed folders that begin with what was typed."""

    typed: str


class ListDatabases(Request[list[str]], frozen=True):
    """Return the databases of the settings that are no locations, as ``postgresql:NAME``."""


class OpenLocation(Request[int], frozen=True):
    """Return the primary key of the location at a path, added if it is new. Raises UnknownLocation.

    Only below the allowed folders, unless ``anywhere``.
    """

    path: str
    anywhere: bool = False


class PermitPaths(Request[None], frozen=True):
    """Let rows name these paths of this machine, although they are outside the allowed folders.

    Only a command on the machine itself may ask this.
    """

    paths: list[str]


class ListOverlaps(Request[list[str]], frozen=True):
    """Return sentences about a location that contains others or is in one."""

    location: int


class ChangePath(Request[None], frozen=True):
    """Read a location at another path from now on. Raises UnknownLocation."""

    location: int
    path: str


class ImportLocation(Request[ImportResult], frozen=True):
    """Bring the rows of a location up to date.

    ``newest_first`` imports only the newest checkpoints of a large location; the rest follows later.
    """

    location: int
    newest_first: bool = False


class ImportRun(Request[ImportResult], frozen=True):
    """Bring the checkpoints of a run of an indexed location up to date."""

    run: int
    newest_first: bool = False


class StoredKey(Request[str], frozen=True):
    """Return a key as rows of the location store it: without the secrets of the project."""

    location: int
    key: str


class RemoveLocation(Request[None], frozen=True):
    """Delete the rows and stored copies of a location, not what is at its path. Raises WouldBeLost."""

    location: int


class FindEnds(Request[None], frozen=True):
    """Find out which runs of a location have ended although no checkpoint says so."""

    location: int


class IndexNow(Request[None], frozen=True):
    """Index new texts for the search, for at most this many seconds; with ``costs``, also compute costs."""

    seconds: float
    costs: bool = False


class IsLocationGone(Request[bool], frozen=True):
    """Whether the file or folder of a location no longer exists. False if that cannot be known."""

    location: int


class PrepareImport(Request[None], frozen=True):
    """Start the reader processes for a large import that may come soon."""


# Pruning


# The largest number of checkpoints of each branch that stay.
MAX_PRUNE_LATEST = 1_000_000


class PruneRules(msgspec.Struct, frozen=True):
    """A checkpoint is pruned if all rules that are given hold: its age, position, branch and thread.

    ``days`` is the least age, ``latest`` how many of the newest of each branch stay. With ``copies``, the
    stored copies are deleted, too, also those of matching checkpoints that were pruned before. With
    ``whole_threads``, LangGraph's threads are deleted whose newest checkpoint is that old.
    """

    days: int | None = None
    latest: int | None = None
    branch: str = ""
    copies: bool = False
    thread: str = ""
    whole_threads: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no rule is given. Nothing is pruned then."""
        return self.days is None and self.latest is None and not self.branch and not self.thread


class PrunedThread(msgspec.Struct, frozen=True):
    """A thread that is deleted whole, with its number of checkpoints and its size in bytes."""

    name: str
    checkpoints: int
    size: int


class PruneList(msgspec.Struct, frozen=True):
    """What would be deleted of a location, oldest first, by source keys.

    ``pruned`` are no longer at their source; with ``deletes_copies``, their stored copies are deleted, too.
    ``protected`` counts the checkpoints that stay, by reason. ``size`` is in bytes. ``threads`` are those
    that are deleted whole.
    """

    rows: list[str]
    pruned: list[str]
    protected: dict[str, int]
    size: int
    digest: str
    deletes_copies: bool
    threads: list[PrunedThread] = []

    @property
    def listed(self) -> int:
        """How many checkpoints it lists in all."""
        return len(self.rows) + len(self.pruned)

    @property
    def most_lines(self) -> int:
        """The length of the longer of its lists. Threads that are deleted whole are one line each."""
        return max(len(self.threads or self.rows), len(self.pruned))


class KeptEntry(msgspec.Struct, frozen=True):
    """A checkpoint that was not deleted, by its source key, and why."""

    key: str
    reason: UserMessage


class Pruned(msgspec.Struct, frozen=True):
    """The source keys that were deleted, what was not, and how many stored copies were deleted."""

    deleted: list[str]
    kept: list[KeptEntry]
    copies: int = 0

    @property
    def count(self) -> int:
        """How many checkpoints were deleted at their source."""
        return len(self.deleted)


class ListPrunable(Request[PruneList], frozen=True):
    """Return what these rules would delete of a location as it is now. Raises PruneRefused."""

    location: int
    rules: PruneRules


class Prune(Request[Pruned], frozen=True):
    """Delete the list that has this digest, which a person confirmed. Raises PruneRefused."""

    location: int
    rules: PruneRules
    digest: str


# Projects


class ProposedProject(msgspec.Struct, frozen=True):
    """What was found around a location. Empty texts mean that nothing was found.

    ``is_found`` says whether anything marks ``folder`` as a project's. ``looked_for`` are the names of such
    files, and ``looked_for_interpreters`` those of interpreters.
    """

    folder: str
    interpreter: str
    environment_file: str
    entry_points: list[EntryPoint]
    is_found: bool
    looked_for: list[str]
    looked_for_interpreters: list[str]


class InterpreterFacts(msgspec.Struct, frozen=True):
    """The versions of Python and of an engine in an interpreter's environment; empty if not known.

    ``link_target`` is where the interpreter leads if it is a link, ``is_outside`` whether its environment is
    outside of the allowed folders.
    """

    python_version: str
    engine_version: str
    link_target: str
    is_outside: bool


class ProposeProject(Request[ProposedProject], frozen=True):
    """Return the project around a location's path, for a person to confirm. Only reads files."""

    location_path: str
    engine: str


class ReadInterpreter(Request[InterpreterFacts], frozen=True):
    """Return what the files of an interpreter's environment say. Without ``engine``, of any engine."""

    interpreter: str
    engine: str = ""


class ProjectFiles(msgspec.Struct, frozen=True):
    """The interpreter and the environment file of a project's folder; empty if there is none."""

    interpreter: str
    environment_file: str


class FindProjectFiles(Request[ProjectFiles], frozen=True):
    """Return the files of a project's folder. Only reads files."""

    folder: str
    engine: str


class ProjectPaths(msgspec.Struct, frozen=True):
    """The paths of a project with links followed, and by field why one cannot be used."""

    folder: str
    interpreter: str
    environment_file: str
    errors: dict[str, UserMessage]


class CheckProjectPaths(Request[ProjectPaths], frozen=True):
    """Check the paths of a project that a person typed. An empty one is not checked.

    Only below the allowed folders; the interpreter also elsewhere, if ``anywhere``.
    """

    folder: str
    interpreter: str
    environment_file: str
    anywhere: bool = True


class FindEntryPoints(Request[list[EntryPoint]], frozen=True):
    """Return the entry points in the source of a project's folder. Nothing is run."""

    engine: str
    folder: str


class MatchEntryPoint(Request[str], frozen=True):
    """Return which of these entry points makes what has this kind and name; empty if unclear."""

    engine: str
    folder: str
    entry_points: list[str]
    kind: str
    name: str


class ListNamedEntryPoints(Request[dict[str, str]], frozen=True):
    """Return the entry points that a project's configuration names, by these names."""

    engine: str
    folder: str


class ListEntryPointKinds(Request[dict[str, str]], frozen=True):
    """Return the kind of root entity that each of these entry points makes; empty where that is not known."""

    engine: str
    folder: str
    entry_points: list[str]


class ListInputNames(Request[list[InputName]], frozen=True):
    """Return the inputs that the source of an entry point uses."""

    engine: str
    folder: str
    entry_point: str
    kind: str


class ReadSource(Request[Any], frozen=True):
    """Return what the source of an entry point shows about later steps, for the engine's ``plan``.

    The type is the engine's ``source_type``. With a ``commit`` of the folder's repository, the source is as
    the commit has it; None if it cannot be read.
    """

    engine: str
    folder: str
    entry_point: str
    kind: str
    commit: str = ""


class ListCheckpointEvents(Request[list[EventGroup]], frozen=True):
    """Return the events at which the engine of an interpreter can write a checkpoint; empty for none."""

    engine: str
    interpreter: str


class CheckProject(Request[None], frozen=True):
    """Check that a project can run. Raises JobRefused."""

    project: int | None


class WriteTarget(msgspec.Struct, frozen=True):
    """A path that a new run can write to, and the kind of its store: json, sqlite or postgresql."""

    path: str
    store_kind: str


class FindWriteTarget(Request[WriteTarget], frozen=True):
    """Return the write target that a person names, relative to the project's folder. Nothing is created.

    Only below the allowed folders, unless ``anywhere``. Raises UnknownLocation if it cannot be written to.
    """

    project: int
    path: str
    anywhere: bool = False


class CheckWriteTarget(Request[WriteTarget], frozen=True):
    """Return the write target of a location. Raises UnknownLocation, also if its path leads elsewhere now."""

    project: int
    location: int


class OpenWriteTarget(Request[int], frozen=True):
    """Return the primary key of a write target's location, created and added if it is new.

    ``engine`` is the one that a new location records. Raises UnknownLocation.
    """

    project: int
    target: WriteTarget
    engine: str


class CheckImports(Request[UserMessage | None], frozen=True):
    """Return why the code of a project with these values could not be imported; None if it could."""

    folder: str
    interpreter: str
    environment_file: str
    entry_points: list[str]


class KeepableKey(msgspec.Struct, frozen=True):
    """A variable of an environment file whose key can stay with Forkline, and the address of that key."""

    variable: str
    address: str


class ListKeepableKeys(Request[list[KeepableKey]], frozen=True):
    """Return the keys of a project's environment file that can stay with Forkline, but not their values.

    None if the file cannot be read.
    """

    project: int


class OpenFolders(msgspec.Struct, frozen=True):
    """The folders and files that an isolated project's runs may read, and those that they may write."""

    read: list[str]
    write: list[str]


class ListOpenFolders(Request[OpenFolders], frozen=True):
    """Return the folders that an isolated project's runs could open now, besides those of the system.

    ``read`` and ``write`` are its further folders. Links and the project's environment lead to the others.
    """

    project: int
    read: list[str]
    write: list[str]


class HideProjectSecrets(Request[None], frozen=True):
    """Redact the values of a project's environment file in what is stored already."""

    project: int


class Redact(Request[list[Any]], frozen=True):
    """Return these JSON values without secrets, among them those of the project's environment file."""

    project: int | None
    values: list[Any]


# Stored data


class StoredKind(msgspec.Struct, frozen=True):
    """One kind of data: how many there are, None if they are not counted, and their size in bytes."""

    label: str
    count: int | None
    size: int


class DraftFile(msgspec.Struct, frozen=True):
    """The scratch store of a job, by the job's id, with its size in bytes."""

    job: str
    written_at: datetime
    size: int


class ReadSizes(Request[list[StoredKind]], frozen=True):
    """Return what the host stores, the database as a whole first."""


class ListDrafts(Request[list[DraftFile]], frozen=True):
    """Return the scratch stores of all jobs, the newest first."""


# Preflight checks


class CheckReply(msgspec.Struct, frozen=True):
    """The id of a stored preflight check, empty if there is none, and its fingerprint."""

    id: str
    fingerprint: str


class CheckCheckpoint(Request[CheckReply], frozen=True):
    """Return the stored preflight check of a run from this checkpoint, or start one.

    With ``again``, a failed check is repeated. With ``only_stored``, none is started.
    """

    checkpoint: int
    project: int
    entry_point: str
    again: bool = False
    only_stored: bool = False
    commit: str = ""


class CheckNewRun(Request[CheckReply], frozen=True):
    """The same as ``CheckCheckpoint`` for a new run of an entry point."""

    project: int
    entry_point: str
    entity: str
    store_kind: str
    again: bool = False
    only_stored: bool = False


class ListNextUnits(Request[list[dict[str, Any]]], frozen=True):
    """Return what would run next after these edits, for each unit. Nothing runs. Raises JobRefused."""

    checkpoint: int
    project: int
    entry_point: str
    edits: Edits
    commit: str = ""


class ListNewEffects(Request[list[dict[str, Any]]], frozen=True):
    """Return the effects of a checkpoint that nobody has accepted for the project. Raises JobRefused."""

    checkpoint: int
    project: int
    entry_point: str
    commit: str = ""


# The code of projects


class ChangedFile(msgspec.Struct, frozen=True):
    """A source of a project that was changed, added or removed since a job recorded the code."""

    name: str
    change: str


class ChangedCode(msgspec.Struct, frozen=True):
    """The sources that have changed, and whether the project's repository has the recorded commit."""

    files: list[ChangedFile]
    has_commit: bool


class CodeDifference(msgspec.Struct, frozen=True):
    """A source as it was and as it is, without secrets. None if it was or is not there, or cannot be read."""

    before: str | None
    after: str | None


class ListCodeChanges(Request[ChangedCode], frozen=True):
    """Return the sources of a project that differ from the recorded code with this key."""

    project: int
    code: int


class CheckCommit(Request[None], frozen=True):
    """Check that the project's repository has a commit that can be checked out. Raises JobRefused."""

    project: int
    commit: str


class CompareCode(Request[str], frozen=True):
    """Return what identifies a project's code if it differs from the recorded code with this key, or may.

    Empty if it is the same. Without a key, no code was recorded, so it may differ.
    """

    project: int
    code: int | None


class ReadCodeDifference(Request[CodeDifference], frozen=True):
    """Return a source of a project as the recorded code with this key has it, and as it is now."""

    project: int
    code: int
    name: str


# Jobs


class Workers(msgspec.Struct, frozen=True):
    """Whether a worker serves, and how many jobs it runs at once; 0 if it has not recorded that."""

    is_up: bool
    slots: int


class ReadWorkers(Request[Workers], frozen=True):
    """Return the workers that serve."""


class DeliverAnswer(Request[None], frozen=True):
    """Write the stored answer of a question for its runner, unless that has been done."""

    question: int


class Prewarm(Request[None], frozen=True):
    """Start a process that imports the engine and waits for a job of this project."""

    project: int
