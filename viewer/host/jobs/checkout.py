"""A clean checkout of a commit in the folder of a job, whose runner uses it instead of the project's folder.

git itself would run filters and hooks that a repository names, and write to the repository. So only the
objects are read, and the files are written here, as the commit has them.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer
from typing import IO

from viewer.formats import short_size
from viewer.host.confined import confined, is_confined
from viewer.host.jobs.process_tree import kill_session
from viewer.host_requests import JobRefused
from viewer.models import Project

# Reads a project's git repository. Nothing that the repository names is run, and nothing in it changes.
#
# Only commands that read objects and names are called. They neither compare the working tree nor read
# or write the index, so that git calls no file system monitor, filter, hook, ``textconv`` or external diff of
# the repository's configuration. A missing object is not fetched, which could call a program as well. In what
# isolated runs may write, git can open only what they can: a repository may name another one in many ways.


# Time and output limits of one command, and the time in which it reads all files of a commit.
SECONDS = 3.0
SECONDS_FOR_ALL = 120.0
MAX_OUTPUT_BYTES = 32 * 1024 * 1024
# The modes of a tree's entries. A submodule has another one.
FILES, LINK = ("100644", "100755"), "120000"
EXECUTABLE = FILES[1]
ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
# Of the server's variables, git gets these.
INHERITED = ("PATH", "HOME", "XDG_CONFIG_HOME")
VARIABLES = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # No transport is allowed. Older versions of git fetch missing objects whatever the line above says.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
# For a git that is confined. Of the user's configuration, which is closed, it would only report an error.
# Who owns a repository that it can neither write nor leave does not matter.
WHEN_CONFINED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"},
}
OPTIONS = (
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),
)


class GitFailure(Exception):
    """git is not installed, refused, or exceeded a limit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a commit's tree: its mode and the id of its object."""

    mode: str
    id: str


@dataclass(frozen=True, slots=True)
class Repository:
    """The working tree that contains a folder, and one of its commits; empty without commits."""

    top: Path
    commit: str


def repository_of(folder: Path) -> Repository | None:
    """Return the repository whose working tree contains the folder, and its current commit; None without."""
    try:
        top = _git(folder, "rev-parse", "--show-toplevel").decode(errors="surrogateescape")
    except GitFailure:
        return None
    found = Path(top.removesuffix("\n"))
    # A repository's configuration can name another working tree.
    if found != _top(folder):
        return None
    try:
        commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
    except GitFailure:
        commit = ""
    return Repository(found, commit)


def has_commit(folder: Path, commit: str) -> bool:
    """Whether the folder's repository has this commit."""
    try:
        found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    except GitFailure:
        return False
    return found.decode().strip() == commit


def tree_of(repository: Repository, folders: Sequence[Path]) -> dict[bytes, Entry]:
    """Return the entries of the repository's commit below these folders, by their paths. Raises GitFailure.

    A folder outside the working tree has no entries.
    """
    below = [_resolved(one) for one in folders]
    paths = [str(one.relative_to(repository.top)) for one in below if one.is_relative_to(repository.top)]
    # After "./", nothing in a path is magic.
    wanted = [] if "." in paths else [f"./{path}" for path in paths]
    listed = _git(repository.top, "ls-tree", "-r", "-z", repository.commit, "--", *wanted)
    found = {}
    for line in listed.split(b"\0")[:-1]:
        facts, _tab, path = line.partition(b"\t")
        mode, _kind, name = facts.decode().split(" ")
        found[path] = Entry(mode, name)
    return found


def ignored(repository: Repository, paths: AbstractSet[bytes]) -> AbstractSet[bytes]:
    """Return those of the paths that the repository's rules ignore. Raises GitFailure."""
    arguments = ("check-ignore", "--no-index", "-z", "--stdin")
    given = b"".join(b"./%s\0" % path for path in paths)
    listed = _git(repository.top, *arguments, given=given, is_ok=(0, 1)).split(b"\0")
    return paths & {path.removeprefix(b"./") for path in listed}


def blob(folder: Path, name: str, limit: int) -> bytes | None:
    """Return the content of the blob with this id; None if the repository lacks it, or it is longer."""
    if not ID.fullmatch(name):
        # It could be an option.
        return None
    try:
        data = _git(folder, "cat-file", "blob", name, limit=limit)
    except GitFailure:
        return None
    # git does not compare an object with its id when it reads it.
    return data if blob_id(data, name) == name else None


def blobs(repository: Repository, names: Iterable[str], limit: int) -> Iterator[bytes]:
    """Yield the content of each of these blobs. Raises GitFailure.

    That is so if one is missing, longer than ``limit``, or not what its id says.
    """
    names = list(names)
    given = "".join(f"{name}\n" for name in names).encode()
    with _running(repository.top, ("cat-file", "--batch"), given, SECONDS_FOR_ALL) as output:
        for name in names:
            found, _space, facts = output.readline(200).decode(errors="replace").rstrip("\n").partition(" ")
            kind, _space, size = facts.partition(" ")
            if found != name or kind != "blob" or not size.isdigit() or int(size) > limit:
                raise GitFailure(f"{name} is missing, too large, or could not be read in time")
            data = output.read(int(size) + 1)[:-1]
            if blob_id(data, name) != name:
                raise GitFailure(f"{name} is damaged")
            yield data


def blob_id(data: bytes, like: str = "") -> str:
    """Return the id that git gives to this content, computed as the id ``like`` was: SHA-1, or SHA-256."""
    compute = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return compute(b"blob %d\0" % len(data) + data).hexdigest()


def _resolved(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _top(folder: Path) -> Path:
    """The nearest folder with something called ``.git``; the folder itself without."""
    real = _resolved(folder)
    return next((one for one in (real, *real.parents) if os.path.lexists(one / ".git")), real)


def _git(
    folder: Path,
    *arguments: str,
    given: bytes = b"",
    limit: int = MAX_OUTPUT_BYTES,
    is_ok: Sequence[int] = (0,),
) -> bytes:
    """Return the output of a command that only reads. Raises GitFailure."""
    with _running(folder, arguments, given, SECONDS, is_ok) as output:
        data = output.read(limit + 1)
        if len(data) > limit:
            raise GitFailure(f"git {arguments[0]} printed too much")
    return data


@contextmanager
def _running(
    folder: Path, arguments: Sequence[str], given: bytes, seconds: float, is_ok: Sequence[int] = (0,)
) -> Iterator[IO[bytes]]:
    """Yield the output of a command that only reads. Raises GitFailure.

    Kills the command if the block raises, or after these seconds.
    """
    program = shutil.which("git")
    if program is None:
        raise GitFailure("git is not installed")
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | VARIABLES
    with tempfile.TemporaryFile() as stdin:
        stdin.write(given)
        stdin.seek(0)

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                [program, *OPTIONS, "-C", str(folder), *arguments],
                env=environment | (WHEN_CONFINED if is_confined() else {}),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

        try:
            process = confined(_top(folder), start)
        except (OSError, JobRefused) as error:
            raise GitFailure(str(error)) from error
    timer = Timer(seconds, kill_session, [process])
    timer.start()
    try:
        with process:
            assert process.stdout
            try:
                yield process.stdout
            except BaseException:
                kill_session(process)
                raise
    finally:
        timer.cancel()
    if process.returncode not in is_ok:
        raise GitFailure(f"git {arguments[0]} ended with {process.returncode}")


# A clean checkout of a commit, for one run.


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
