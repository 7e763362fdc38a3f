"""What this machine does for others: what their rights allow, with what its own rows name, in its folders.

Machines that share a database can write rows, and one of them may have been broken into. So a path is opened
only if it is in an allowed folder, or if a command on this machine has named it (``permit``).
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.db.models.functions import Coalesce

from viewer import host_requests as asked
from viewer.host.projects import INTERPRETER_NAME
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Host, Job, Location, Project, Question, Right, Run
from viewer.models.rows import uuid_of
from viewer.records.audit import ActorKind, present_actor
from viewer.records.permissions import has_right

# Whose rows a request names.

# The fields of requests that name rows, with the model and the way to its host.
OWNERS: dict[str, tuple[Any, Any]] = {
    "location": (Location, "host"),
    "checkpoint": (Checkpoint, "location__host"),
    "run": (Run, "location__host"),
    "project": (Project, "host"),
    "question": (Question, Coalesce("job__host", "job__location__host")),
}
# Requests about a run from a checkpoint in a project.
OF_PROJECT = (asked.CheckCheckpoint, asked.ListNewEffects, asked.ListNextUnits)


def host_of(request: asked.Request[Any]) -> int | None:
    """Return the host of the rows that a request names; None if it names none. Raises HostRefusal for two."""
    found = set()
    for name, (model, way) in OWNERS.items():
        if (key := getattr(request, name, None)) is not None:
            if model is Checkpoint and (drafted := _host_of_draft(key)):
                # Only this host has its scratch store. It sees the project as well, which is in its pool.
                return drafted
            if model is Checkpoint and isinstance(request, OF_PROJECT):
                # The project's host starts from the stored copy, if the location is another host's.
                continue
            found.add(model.objects.values_list(way, flat=True).get(pk=key))
    if len(found) > 1:
        raise asked.JobRefused("job.other_host")
    return found.pop() if found else None


def _host_of_draft(key: int) -> int | None:
    """Return the host whose job wrote this checkpoint to its scratch store; None for another checkpoint."""
    checkpoint = Checkpoint.objects.only("source_key").get(pk=key)
    if not checkpoint.is_scratch:
        return None
    return Job.objects.filter(pk=checkpoint.scratch_job).values_list("host", flat=True).first()


# What the person may do for whom something is asked.

# The right that each request needs on the rows that it names. Every page may send one that needs the right to
# view, also a shared one, and so may the program itself.
PERMISSIONS: dict[type[asked.Request[Any]], Right] = {
    asked.ReadBody: Right.VIEW,
    asked.ReadBodies: Right.VIEW,
    asked.RevealValue: Right.REVEAL,
    asked.CopyStore: Right.RUN,
    asked.FindStores: Right.LOCATIONS,
    asked.CompletePath: Right.LOCATIONS,
    asked.ListDatabases: Right.VIEW,
    asked.OpenLocation: Right.LOCATIONS,
    asked.PermitPaths: Right.LOCATIONS,
    asked.ListOverlaps: Right.LOCATIONS,
    asked.ChangePath: Right.LOCATIONS,
    asked.ImportLocation: Right.VIEW,
    asked.ImportRun: Right.VIEW,
    asked.StoredKey: Right.VIEW,
    asked.RemoveLocation: Right.LOCATIONS,
    asked.FindEnds: Right.VIEW,
    asked.IndexNow: Right.VIEW,
    asked.IsLocationGone: Right.VIEW,
    asked.PrepareImport: Right.VIEW,
    asked.ListPrunable: Right.PRUNE,
    asked.Prune: Right.PRUNE,
    asked.ProposeProject: Right.RUN,
    asked.ReadInterpreter: Right.RUN,
    asked.FindProjectFiles: Right.RUN,
    asked.CheckProjectPaths: Right.RUN,
    asked.FindEntryPoints: Right.RUN,
    asked.MatchEntryPoint: Right.VIEW,
    asked.ListNamedEntryPoints: Right.RUN,
    asked.ListEntryPointKinds: Right.RUN,
    asked.ListInputNames: Right.RUN,
    asked.ReadSource: Right.RUN,
    asked.ListCheckpointEvents: Right.RUN,
    asked.CheckProject: Right.RUN,
    asked.FindWriteTarget: Right.RUN,
    asked.CheckWriteTarget: Right.RUN,
    asked.OpenWriteTarget: Right.RUN,
    asked.CheckImports: Right.RUN,
    asked.ListKeepableKeys: Right.PROJECTS,
    asked.ListOpenFolders: Right.PROJECTS,
    asked.HideProjectSecrets: Right.RUN,
    asked.Redact: Right.VIEW,
    asked.ReadSizes: Right.VIEW,
    asked.ListDrafts: Right.VIEW,
    asked.CheckCheckpoint: Right.RUN,
    asked.CheckNewRun: Right.RUN,
    asked.ListNextUnits: Right.RUN,
    asked.ListNewEffects: Right.RUN,
    asked.ListCodeChanges: Right.RUN,
    asked.CheckCommit: Right.RUN,
    asked.CompareCode: Right.RUN,
    asked.ReadCodeDifference: Right.RUN,
    asked.ReadWorkers: Right.VIEW,
    asked.DeliverAnswer: Right.RUN,
    asked.Prewarm: Right.RUN,
}


def refuse_actor(request: asked.Request[Any]) -> None:
    """Raise HostRefusal if the present actor has no right to ask this."""
    # A stored check starts nothing.
    right = Right.VIEW if getattr(request, "only_stored", False) else PERMISSIONS[type(request)]
    actor = present_actor()
    if actor.kind == ActorKind.TERMINAL:
        return
    keys = ((model, getattr(request, name, None)) for name, (model, _way) in OWNERS.items())
    rows = {model: key for model, key in keys if key is not None}
    is_person = actor.kind == ActorKind.USER and not actor.is_through_link
    is_allowed = has_right(actor.user, right, rows) if is_person else right == Right.VIEW
    if not is_allowed:
        raise asked.HostRefusal("host.not_permitted", kind=type(request).__name__)


# Requests of other machines.

# The fields of requests that are paths. What answers checks ``path`` and ``typed`` against allowed folders.
PATHS = ("folder", "interpreter", "environment_file", "location_path")


def checked(request: asked.Request[Any]) -> asked.Request[Any]:
    """Return a request that came over the network, as it may be answered.

    Raises HostAway if it names rows of another host, whose paths lead elsewhere here, and HostRefusal if its
    sender has no right to it, or if it names a path, or a project with one, that this machine must not open.
    """
    refuse_actor(request)
    own, key = Host.own(), host_of(request)
    if own is None or key not in (None, own.pk):
        raise asked.HostAway("host.away", host=str(own or ""))
    if isinstance(request, asked.PermitPaths | asked.RevealValue):
        raise asked.HostRefusal("host.unknown_request", kind=type(request).__name__)
    for name, path in _paths(request):
        is_program = name == "interpreter" and (_is_python(path) or path == "/")
        # Forms that are not filled in name no path, and "/" as the interpreter.
        if path and not (is_program or _is_allowed(name, path) or path in _permitted_here()):
            raise asked.HostRefusal.saying(_refusal(path))
    if (project := getattr(request, "project", None)) is not None:
        refuse_project(Project.objects.get(pk=project))
    if getattr(request, "anywhere", False):
        return msgspec.structs.replace(request, anywhere=False)
    return request


def _paths(request: asked.Request[Any]) -> Iterator[tuple[str, str]]:
    if isinstance(request, asked.CheckProjectPaths):
        # Its reply says which of them it refuses.
        return
    for name in PATHS:
        if (path := getattr(request, name, None)) is not None:
            yield name, path
    if isinstance(request, asked.OpenWriteTarget):
        yield "target", request.target.path


# Paths that rows name.

# The paths outside the allowed folders that commands on this machine have named, a JSON text on each line.
PERMITTED_FILE = "permitted_paths"


def permit(*paths: str) -> None:
    """Let rows of this machine name these paths, although they are outside its allowed folders."""
    known = _permitted_here()
    new = [path for path in paths if path and path not in known and not _is_allowed("", path)]
    if new:
        file = os.open(
            Path(settings.DATA_DIR) / PERMITTED_FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode=0o600
        )
        with open(file, "r+", encoding="utf-8") as lines:
            known_lines = lines.read()
            if known_lines and not known_lines.endswith("\n"):
                # A full disk has cut the last line.
                lines.write("\n")
            lines.writelines(f"{json.dumps(path)}\n" for path in new)


def _permitted_here() -> set[str]:
    try:
        text = (Path(settings.DATA_DIR) / PERMITTED_FILE).read_text(encoding="utf-8")
    except OSError:
        return set()
    found = set()
    for line in text.splitlines():
        # A full disk may have cut one.
        with suppress(ValueError):
            found.add(json.loads(line))
    return found


def refusal_of(*paths: str | None) -> UserMessage | None:
    """Return why this machine must not open one of the paths of a row; None if it may open all of them.

    An empty path is refused: it would name the folder in which the worker was started. A database that no
    other machine uses has only rows of this one.
    """
    if not settings.IS_DATABASE_SHARED:
        return None
    outside = (one for one in paths if one is not None and not _is_allowed("", one))
    refused = next((one for one in outside if one not in _permitted_here()), None)
    return None if refused is None else _refusal(refused)


def refuse_project(project: Project) -> None:
    """Raise JobRefused if the project's sources, program or environment file must not be used here.

    A Python may be anywhere: the environments of projects often are outside their folders.
    """
    program = None if _is_python(project.interpreter) else project.interpreter
    if refusal := refusal_of(project.folder, project.environment_file or None, program or None):
        raise asked.JobRefused(refusal)


def refuse_source(checkpoint: Checkpoint) -> None:
    """Raise JobRefused if a run must not read the checkpoint at its source, such as outside its location."""
    location, key = checkpoint.location, checkpoint.source_key
    if location.is_local and (refusal := refusal_of(location.path)):
        raise asked.JobRefused(refusal)
    is_upwards = Path(key).is_absolute() or ".." in Path(key).parts
    is_outside = location.store_kind == Location.StoreKind.JSON and is_upwards
    if is_outside or (checkpoint.is_scratch and uuid_of(checkpoint.scratch_job) is None):
        raise asked.JobRefused(_refusal(checkpoint.source))


def _refusal(path: str) -> UserMessage:
    roots = ", ".join(str(root) for root in settings.CHECKPOINT_ROOTS)
    return UserMessage("host.path_refused", {"path": path, "roots": roots})


def _is_python(path: str) -> bool:
    return bool(INTERPRETER_NAME.fullmatch(Path(path).name)) and Path(path).is_absolute()


def _is_allowed(name: str, path: str) -> bool:
    """Whether the path leads into an allowed folder."""
    try:
        found = Path(os.path.realpath(path))
        if name == "interpreter":
            # An environment's interpreter is a link to one outside, which knows none of its packages.
            found = Path(os.path.realpath(Path(path).parent)) / Path(path).name
    except (OSError, ValueError):
        return False
    is_inside = any(found.is_relative_to(root) for root in settings.CHECKPOINT_ROOTS)
    return Path(path).is_absolute() and is_inside
