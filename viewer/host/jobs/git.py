"""Reads a project's git repository. Nothing that the repository names is run, and nothing in it changes.

Only commands that read objects and names are called. They neither compare the working tree nor read or write
the index, so that git calls no file system monitor, filter, hook, ``textconv`` or external diff of the
repository's configuration. A missing object is not fetched, which could call a program as well.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO

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
    if not _resolved(folder).is_relative_to(found):
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
        try:
            process = subprocess.Popen(
                [program, *OPTIONS, "-C", str(folder), *arguments],
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise GitFailure(str(error)) from error
    timer = Timer(seconds, _kill, [process])
    timer.start()
    try:
        with process:
            assert process.stdout
            try:
                yield process.stdout
            except BaseException:
                _kill(process)
                raise
    finally:
        timer.cancel()
    if process.returncode not in is_ok:
        raise GitFailure(f"git {arguments[0]} ended with {process.returncode}")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill git and its children, which may have its output open: ``git`` can be a script."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
