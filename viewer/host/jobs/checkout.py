"""A clean checkout of a commit in the folder of a job, whose runner uses it instead of the project's folder.

git itself would run filters and hooks that a repository names, and write to the repository. So only the
objects are read (``viewer.host.jobs.git``), and the files are written here, as the commit has them.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from viewer.formats import short_size
from viewer.host.jobs.git import (
    EXECUTABLE,
    FILES,
    LINK,
    Entry,
    GitFailure,
    Repository,
    blobs,
    has_commit,
    repository_of,
    tree_of,
)
from viewer.host_requests import JobRefused
from viewer.models import Project

MAX_FILES = 50_000
MAX_BYTES = 2 * 1024**3
MAX_FILE_BYTES = 256 * 1024**2
# The modification time of each file and link that a checkout writes, in seconds since the epoch: 1 January
# 2000. Those with another one were written by a run.
WRITTEN_AT = 946_684_800


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files of a commit at ``path``, instead of the working tree at ``top``."""

    top: Path
    path: Path
    commit: str

    def of(self, path: str | Path) -> Path:
        """The path in the checkout for one in the working tree. Any other path is returned as it is."""
        found = Path(os.path.realpath(path))
        return self.path / found.relative_to(self.top) if found.is_relative_to(self.top) else Path(path)


def check_out(project: Project, commit: str, path: Path, endings: tuple[str, ...] = ()) -> Checkout:
    """Write the files of a commit of the project's repository to ``path``, completely or not at all.

    With ``endings``, only files with such a name are written. Raises JobRefused, OSError.
    """
    repository = repository_at(project, commit)
    found = Checkout(repository.top, path, commit)
    try:
        entries = entries_of(repository)
        chosen = {
            name: one for name, one in entries.items() if name.endswith(tuple(map(os.fsencode, endings)))
        }
        new = path.with_name(f"{path.name}.new")
        for left in (new, path):
            shutil.rmtree(left, ignore_errors=True)
        new.mkdir(mode=0o700)
        try:
            _write(repository, chosen if endings else entries, new)
            new.rename(path)
            # A link may name the folder itself, so this is checked under its final name.
            _refuse_links_out_of(path, (name for name, one in entries.items() if one.mode == LINK))
        except BaseException:
            for left in (new, path):
                shutil.rmtree(left, ignore_errors=True)
            raise
    except GitFailure as error:
        raise JobRefused("checkout.git_failed", commit=commit[:7], error=str(error)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise JobRefused("checkout.names_clash", commit=commit[:7], path=str(error.filename)) from error
    if not found.of(project.folder).is_dir():
        raise JobRefused("checkout.folder_missing", commit=commit[:7], folder=project.folder)
    return found


def repository_at(project: Project, commit: str) -> Repository:
    """The project's repository with this commit. Raises JobRefused."""
    repository = repository_of(Path(project.folder))
    if repository is None or not has_commit(repository.top, commit):
        raise JobRefused("checkout.commit_missing", commit=commit[:7])
    return replace(repository, commit=commit)


def check_commit(project: Project, commit: str) -> None:
    """Check that a commit of the project's repository can be checked out. Raises JobRefused."""
    repository = repository_at(project, commit)
    try:
        entries_of(repository)
    except GitFailure as error:
        raise JobRefused("checkout.git_failed", commit=commit[:7], error=str(error)) from error


def entries_of(repository: Repository) -> Mapping[bytes, Entry]:
    """The entries of a commit. Raises GitFailure, and JobRefused for what cannot be written as it is."""
    entries = tree_of(repository, [repository.top])
    if len(entries) > MAX_FILES:
        raise JobRefused("checkout.too_many_files", max_count=MAX_FILES)
    for name, entry in entries.items():
        shown = name.decode(errors="replace")
        parts = name.lower().split(b"/")
        # A folder .git would be a repository whose configuration names programs.
        if any(part in (b"", b".", b"..", b".git") for part in parts):
            raise JobRefused("checkout.unsafe_name", path=shown)
        if entry.mode not in (*FILES, LINK):
            raise JobRefused("checkout.submodule", path=shown)
    return entries


def _write(repository: Repository, entries: Mapping[bytes, Entry], folder: Path) -> None:
    """Write the entries below an empty folder. Raises GitFailure, JobRefused, OSError."""
    # Links last, and no folder after one, so that nothing is written through a link.
    for name in entries:
        (folder / os.fsdecode(name)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ordered = sorted(entries.items(), key=lambda one: one[1].mode == LINK)
    contents = blobs(repository, [entry.id for _name, entry in ordered], MAX_FILE_BYTES)
    size = 0
    for (name, entry), data in zip(ordered, contents, strict=True):
        size += len(data)
        if size > MAX_BYTES:
            raise JobRefused("checkout.too_large", size=short_size(MAX_BYTES))
        path = folder / os.fsdecode(name)
        if entry.mode == LINK and (not data or b"\0" in data):
            # No file system has such a link.
            raise JobRefused("checkout.link_outside", path=name.decode(errors="replace"))
        if entry.mode == LINK:
            path.symlink_to(os.fsdecode(data))
            os.utime(path, (WRITTEN_AT, WRITTEN_AT), follow_symlinks=False)
            continue
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o700 if entry.mode == EXECUTABLE else 0o600), "wb") as file:
            file.write(data)
        os.utime(path, (WRITTEN_AT, WRITTEN_AT))


def _refuse_links_out_of(folder: Path, names: Iterable[bytes]) -> None:
    """Raise JobRefused if a link leads out of the folder, directly or through other links."""
    real = Path(os.path.realpath(folder))
    for name in names:
        path = folder / os.fsdecode(name)
        if not path.is_symlink():
            continue
        is_inside = Path(os.path.realpath(path)).is_relative_to(real)
        if path.readlink().is_absolute() or not is_inside:
            raise JobRefused("checkout.link_outside", path=name.decode(errors="replace"))


def remove_committed(path: Path) -> None:
    """Remove a checkout, but for the files that a run has written there or changed."""
    shutil.rmtree(path.with_name(f"{path.name}.new"), ignore_errors=True)
    if path.is_symlink():
        # A run has replaced it. Do not delete what it points to.
        return
    for current, folders, names in os.walk(path, topdown=False):
        for name in (*names, *folders):
            found = Path(current, name)
            with suppress(OSError):
                status = found.lstat()
                if not stat.S_ISDIR(status.st_mode) and status.st_mtime == WRITTEN_AT:
                    found.unlink()
        # Fails if something is left.
        with suppress(OSError):
            Path(current).rmdir()
