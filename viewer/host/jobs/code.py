"""The code of a project: its source files, their digests, and their commit, now and when a job started.

Only reads, and never more than the limits below.
"""

import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from django.db import transaction

from viewer.engines import engine_named
from viewer.host.confined import confined
from viewer.host.jobs.checkout import (
    FILES,
    LINK,
    Checkout,
    Entry,
    GitFailure,
    Repository,
    blob,
    blob_id,
    check_out,
    has_commit,
    ignored,
    repository_of,
    tree_of,
)
from viewer.host.jobs.environment import added_folders
from viewer.host.jobs.events import redactor_of
from viewer.host_requests import ChangedFile, CodeDifference, JobRefused, ReadSource
from viewer.models import Job, Location, Project, RecordedCode
from viewer.validation import content_at

# The files below a project's folder.


MAX_FILES = 4_000
MAX_FOLDERS = 2_000
MAX_DEPTH = 8
NOT_SOURCE = {"node_modules", "site-packages", "__pycache__"}


def source_folders(folder: Path) -> list[Path]:
    """The project's folder, and those outside it that its configuration adds to the import path."""
    added = dict.fromkeys(added_folders(folder))
    return [folder, *(one for one in added if not one.is_relative_to(folder.resolve()))]


def files_below(folder: Path, endings: tuple[str, ...], without: set[str]) -> tuple[list[Path], bool]:
    """The files with these endings that may be source, sorted in each folder, and whether these are all.

    Follows no links to folders.
    """
    found: list[Path] = []
    walked = os.walk(folder)
    for current, folders, names in islice(walked, MAX_FOLDERS):
        depth = len(Path(current).relative_to(folder).parts)
        folders[:] = sorted(
            name for name in folders if depth < MAX_DEPTH and _may_hold_source(Path(current) / name, without)
        )
        found += [Path(current) / name for name in sorted(names) if name.endswith(endings)]
        if len(found) > MAX_FILES:
            return found[:MAX_FILES], False
    return found, next(walked, None) is None


def _may_hold_source(path: Path, without: set[str]) -> bool:
    """Whether a folder may hold imported code: not an environment, a hidden folder or a location."""
    is_environment = (path / "pyvenv.cfg").exists()
    return not (
        path.name.startswith(".") or path.name in NOT_SOURCE or is_environment or str(path) in without
    )


# What decides a run: source code, and the configuration of projects and engines. No data.


PYTHON = ".py"
DECIDING = (PYTHON, ".yaml", ".yml", ".toml", ".jsonc", "langgraph.json")
MAX_RECORDED_FILES = 1_000
MAX_FILE_BYTES = 1024 * 1024
MAX_COMPARED_BYTES = 256 * 1024 * 1024
# Time limit for reading the code of a project.
SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ProjectCode:
    """The digest of each source by its path, as git computes ids of contents, and the current commit.

    ``commit`` is empty without a repository that has the folder. ``is_dirty``: whether the folder differs
    from the commit; None if that is not known. If not ``is_complete``, the project has more sources.
    """

    files: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    is_dirty: bool | None = None
    is_complete: bool = True


def code_of(project: Project, checkout: Checkout | None = None) -> ProjectCode:
    """Return the code of a project as it is now, or as a checkout has it."""
    folder = Path(project.folder)
    deadline = time.monotonic() + SECONDS
    if checkout:
        read = _sources(project, checkout.commit, deadline, checkout.of(folder))
        return ProjectCode(read.files, checkout.commit, is_dirty=False, is_complete=read.is_complete)
    repository, tree = _committed(folder, source_folders(folder))
    read = _sources(project, repository.commit if repository else "", deadline)
    files, is_complete = read.files, read.is_complete
    if repository is None or not tree:
        return ProjectCode(files, is_complete=is_complete)
    is_dirty = _differs(repository, tree, read.paths, folder, deadline) if is_complete else None
    return ProjectCode(files, repository.commit, is_dirty, is_complete)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The paths that may be sources, the digests of those that were read by name, and if these are all."""

    paths: list[Path]
    files: dict[str, str]
    is_complete: bool


def _sources(project: Project, like: str, deadline: float, checkout: Path | None = None) -> _Sources:
    """Read the sources of a project, or those in its checkout. ``like`` is as for ``blob_id``."""
    found, is_all = sources_of(project, checkout)
    folder = Path(project.folder)
    digests = partial(_digests, found, checkout or folder, like, deadline)
    files, is_complete = confined(folder, digests, *([checkout] if checkout else []))
    return _Sources(found, files, is_complete and is_all)


def sources_of(project: Project, checkout: Path | None = None) -> tuple[list[Path], bool]:
    """The paths that may be sources of a project, or of its code in this checkout, and if these are all."""
    without = set(Location.objects.runnable_here().values_list("path", flat=True))
    folder, own = Path(project.folder), Path(project.environment_file)

    def walk() -> list[tuple[list[Path], bool]]:
        return [files_below(one, DECIDING, without) for one in source_folders(checkout or folder)]

    walked = confined(folder, walk, *([checkout] if checkout else []))
    return [path for paths, _ in walked for path in paths if path != own], all(is_all for _, is_all in walked)


def _digests(found: Iterable[Path], folder: Path, like: str, deadline: float) -> tuple[dict[str, str], bool]:
    """The digests of these files by name, and whether these are all. ``like`` is as for ``blob_id``."""
    files, is_complete = dict[str, str](), True
    for path in found:
        if len(files) == MAX_RECORDED_FILES or time.monotonic() > deadline:
            is_complete = False
            break
        if digest := digest_of(path, like):
            files[name_of(path, folder)] = digest
    return files, is_complete


def name_of(path: Path, folder: Path) -> str:
    """The path relative to the project's folder, as text. Bytes that are not UTF-8 are escaped."""
    return os.fsencode(os.path.relpath(path, folder)).decode(errors="backslashreplace")


def _committed(folder: Path, folders: Sequence[Path]) -> tuple[Repository | None, dict[bytes, Entry]]:
    """The repository, and what its current commit has of the project; no entries if it has nothing."""
    try:
        repository = repository_of(folder)
        if repository is None or not repository.commit:
            return None, {}
        return repository, tree_of(repository, folders)
    except GitFailure:
        return None, {}


def _differs(
    repository: Repository, tree: dict[bytes, Entry], sources: Iterable[Path], folder: Path, deadline: float
) -> bool | None:
    """Whether a file of the commit was edited or removed, or a module that git does not ignore is new."""
    if not all(entry.mode in (*FILES, LINK) for entry in tree.values()):
        # The commit does not say what is in a submodule.
        return None
    if (was_edited := confined(folder, lambda: _was_edited(repository, tree, deadline))) is not False:
        return was_edited
    real_path = cache(os.path.realpath)
    modules = [Path(real_path(path.parent)) / path.name for path in sources if path.suffix == PYTHON]
    below = [one.relative_to(repository.top) for one in modules if one.is_relative_to(repository.top)]
    new = {path for path in map(os.fsencode, below) if path not in tree}
    try:
        return bool(new) and new != ignored(repository, new)
    except GitFailure:
        return None


def _was_edited(repository: Repository, tree: dict[bytes, Entry], deadline: float) -> bool | None:
    """Whether a file of the commit was edited or removed; None if there is too much to read."""
    real_path = cache(os.path.realpath)
    size = 0
    for path, entry in tree.items():
        file = repository.top / os.fsdecode(path)
        size += file.lstat().st_size if os.path.lexists(file) else 0
        if time.monotonic() > deadline or size > MAX_COMPARED_BYTES:
            return None
        # Otherwise a link has replaced a folder.
        is_in_place = real_path(file.parent) == str(file.parent)
        if not is_in_place or not _is_as_committed(file, entry):
            return True
    return False


def _is_as_committed(file: Path, entry: Entry) -> bool:
    if entry.mode == LINK:
        return file.is_symlink() and blob_id(os.fsencode(file.readlink()), entry.id) == entry.id
    return digest_of(file, entry.id, MAX_COMPARED_BYTES) == entry.id


def digest_of(path: Path, like: str, limit: int = MAX_FILE_BYTES) -> str:
    """Return the digest of a file's content, as ``blob_id``; empty if ``content_at`` returns none."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return ""
    version = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return _digest_of(path, status.st_size, len(like), version) if status.st_size <= limit else ""


@lru_cache(maxsize=20_000)
def _digest_of(path: Path, size: int, length: int, _version: tuple[int, ...]) -> str:
    data = content_at(path, size)
    return "" if data is None else blob_id(data, "0" * length)


# The code that a job runs, recorded when it starts.


logger = logging.getLogger(__name__)


def record(job: Job, project: Project, checkout: Checkout | None = None) -> None:
    """Record the project's code as it is now, or that of its checkout, with the job.

    A failure is logged, and the job starts anyway. A name with a secret is left out.
    """
    if job.kind == Job.Kind.PUBLISH:
        # None of the project's code runs.
        return
    try:
        code = code_of(project, checkout)
        files = {name: code.files[name] for name in _without_secrets(code.files, project)}
        with transaction.atomic():
            job.record_code(
                RecordedCode.stored(files, code.commit, is_dirty=code.is_dirty, is_complete=code.is_complete)
            )
    except Exception:
        logger.exception("job %s starts without a record of its code", job.pk)


def _without_secrets(names: Iterable[str], project: Project) -> list[str]:
    """The names that redaction leaves as they are."""
    names = list(names)
    redacted = redactor_of(project)(names)
    return [name for name, shown in zip(names, redacted, strict=True) if name == shown]


# What a source shows about later steps, as a commit has it.


def source_at(request: ReadSource) -> Any:
    """Return what the engine reads in an entry point's source at a commit; None if it cannot be read."""
    try:
        return _source_at(request)
    except (JobRefused, OSError):
        return None


@lru_cache(maxsize=100)
def _source_at(request: ReadSource) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        checkout = check_out(
            Project(folder=request.folder), request.commit, Path(folder, "sources"), DECIDING
        )
        found, engine = checkout.of(request.folder), engine_named(request.engine)
        return confined(
            Path(request.folder),
            lambda: engine.read_source(found, request.entry_point, request.kind),
            checkout.path,
        )


# What has changed since a job ran.


# Of a longer file, no difference is shown.
MAX_SHOWN_BYTES = 256 * 1024


def changes_since(recorded: RecordedCode, project: Project) -> list[ChangedFile]:
    """Return the sources that differ from those that were recorded, sorted by name.

    A name with a secret is left out, as in the record.
    """
    before = recorded.files
    like = next(iter(before.values()), recorded.commit)
    read = _sources(project, like, time.monotonic() + SECONDS)
    now = read.files
    changes = {name: "changed" for name in before.keys() & now.keys() if before[name] != now[name]}
    if recorded.is_complete:
        changes |= dict.fromkeys(now.keys() - before.keys(), "added")
    if read.is_complete:
        changes |= dict.fromkeys(before.keys() - now.keys(), "removed")
    return [ChangedFile(name, changes[name]) for name in _without_secrets(sorted(changes), project)]


def difference_digest(recorded: RecordedCode | None, project: Project) -> str:
    """Return what identifies the code of a project, if it differs from what was recorded, or may differ.

    Empty if all of the code is known and the same.
    """
    before = recorded.files if recorded else {}
    read = _sources(project, next(iter(before.values()), ""), time.monotonic() + SECONDS)
    now = {name: read.files[name] for name in _without_secrets(read.files, project)}
    is_complete = read.is_complete and len(now) == len(read.paths)
    if recorded and recorded.is_complete and is_complete and now == before:
        return ""
    return sha256(json.dumps([sorted(now.items()), is_complete]).encode()).hexdigest()[:32]


def difference(recorded: RecordedCode, project: Project, name: str) -> CodeDifference:
    """Return both texts of a source without secrets: as it was recorded, if git has it, and as it is now."""
    folder, redact = Path(project.folder), redactor_of(project)
    digest = str(recorded.files.get(name, ""))
    before = blob(folder, digest, MAX_SHOWN_BYTES) if _is_committed(folder, recorded, name, digest) else None
    paths = _sources(project, digest, time.monotonic() + SECONDS).paths
    path = next((one for one in paths if name_of(one, folder) == name), None)
    after = confined(folder, lambda: content_at(path, MAX_SHOWN_BYTES)) if path else None
    texts = [None if data is None else redact(data.decode(errors="replace")) for data in (before, after)]
    return CodeDifference(*texts)


def _is_committed(folder: Path, recorded: RecordedCode, name: str, digest: str) -> bool:
    """Whether the recorded or the current commit has a source of this name with this digest.

    Any process that writes rows can name any object of the repository, such as a file with keys.
    """
    if not name.endswith(DECIDING):
        return False
    folders, folder = source_folders(folder), Path(os.path.realpath(folder))
    repository, tree = _committed(folder, folders)
    if repository is None:
        return False
    trees = [tree]
    if recorded.commit and has_commit(folder, recorded.commit):
        with suppress(GitFailure):
            trees.append(tree_of(replace(repository, commit=recorded.commit), folders))
    return any(
        entry.id == digest and name_of(repository.top / os.fsdecode(path), folder) == name
        for tree in trees
        for path, entry in tree.items()
        if entry.mode in FILES
    )
