"""Which files a run in a sandbox may open: the least that it needs to run as it does outside one.

It may write the job's folder, the project's and the location's. It may read the system, the interpreter and
its packages, and Forkline's own code. It may not open Forkline's data folder, other projects, their
environment files, or anything else of the user's.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from viewer.engines.runner_request import Request
from viewer.host.confined import PROGRAMS, closed_paths, is_within, parts_without, real_paths
from viewer.host.jobs.environment import GUARD, MAX_PTH_BYTES, path_entries
from viewer.host_requests import JobRefused
from viewer.models import Project
from viewer.records.isolation import Isolation
from viewer.validation import content_at

# What programs read of the system. /etc has keys of other programs as well.
SYSTEM = (
    *PROGRAMS,
    *("/etc/ssl", "/etc/ca-certificates", "/etc/pki", "/etc/crypto-policies"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/nsswitch.conf"),
    *("/etc/passwd", "/etc/group", "/etc/services", "/etc/protocols", "/etc/mime.types"),
    *("/etc/timezone", "/etc/fonts", "/etc/os-release", "/etc/lsb-release", "/etc/debian_version"),
    *("/etc/OpenCL",),
    *("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm"),
)
# bubblewrap has a folder of its own for these processes.
OF_LANDLOCK = ("/proc",)
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
# The package ``viewer``: the runners, and what they load by path.
FORKLINE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class OpenPaths:
    """The folders and files that stay open, and those within them that do not."""

    read: list[str]
    write: list[str]
    closed: list[str]


def open_paths(
    isolation: Isolation,
    project: Project,
    request: Request,
    environment: Mapping[str, str],
    folder: Path,
    program: str,
) -> OpenPaths:
    """The paths of a run in a sandbox. ``folder`` is the job's, ``program`` the runner. Raises JobRefused."""
    read, write = folders_to_read(project, isolation.read), folders_to_write(project, isolation.write)
    # Links, pyvenv.cfg and ``.pth`` files name these, and a run may write them if its environment is in the
    # project's folder.
    if new := sorted({*read, *write} - {*isolation.trusted}):
        raise JobRefused("isolation.leads_elsewhere", path=new[0])
    fixed = [*SYSTEM, *(OF_LANDLOCK if isolation.launcher == "landlock" else ())]
    # Certificates of the server: the project's file, which a run may have written, could name any file.
    fixed += [*(os.environ.get(name, "") for name in CERTIFICATES), environment[GUARD]]
    read += real_paths([*fixed, str(FORKLINE), str(Path(program).parent)])
    write += real_paths([str(folder), *_stores(request)])
    closed = sorted(closed_paths(project, read, write))
    if project.kept_keys and project.environment_file:
        # Keys of it stay with Forkline.
        closed.append(os.path.realpath(project.environment_file))
    inside = {path: root for path in closed for root in (*read, *write) if is_within(path, root)}
    if isolation.launcher == "landlock":
        for path in inside:
            if root := next((one for one in write if is_within(path, one)), ""):
                raise JobRefused("isolation.cannot_close", path=path, folder=root)
        read = [one for root in read for one in parts_without(root, [*inside])]
    return OpenPaths(read, [*write, *_in_place(write, [*inside])], [*inside])


def folders_to_read(project: Project, further: Iterable[str]) -> list[str]:
    """What a run may read of its interpreter and the further folders, and where their links lead now."""
    interpreter = Path(project.interpreter)
    found = [*_linked(interpreter.parent.parent), *_prefixes(interpreter)]
    found += [str(entry) for _file, entry in path_entries(interpreter) if entry.is_absolute()]
    # The prefix of an interpreter in ~/bin is the home folder.
    return [path for path in real_paths(found) if not Path.home().is_relative_to(path)] + real_paths(further)


def folders_to_write(project: Project, further: Iterable[str]) -> list[str]:
    """What a run may write besides its job and its stores, and where links lead now."""
    return real_paths([project.folder, *further])


def _in_place(write: list[str], closed: list[str]) -> list[str]:
    """The folders between what a run may write and what is closed in it.

    bubblewrap mounts each, so the run cannot rename it: what is closed would be open to the next run.
    """
    found = {
        str(folder)
        for root in write
        for path in closed
        for folder in Path(path).parents
        if is_within(str(folder), root) and str(folder) != root
    }
    return sorted(folder for folder in found if not any(is_within(folder, path) for path in closed))


def _stores(request: Request) -> Iterator[str]:
    """The folders of the stores that the run writes, and that it starts from.

    SQLite writes other files next to the store's, also to read it. Raises JobRefused.
    """
    location = request.get("location")
    sources = [location["path"] if location else ""]
    checkpoint = request.get("checkpoint")
    if checkpoint and not checkpoint.get("stored"):
        sources.append(checkpoint.get("source", ""))
    for source in sources:
        path = Path(source.partition("#")[0])
        if path.is_absolute():
            store = str(path if path.is_dir() else path.parent)
            # Locations have real paths. A run may have replaced a folder in its project by a link.
            if os.path.realpath(store) != store:
                raise JobRefused("isolation.leads_elsewhere", path=store)
            yield store


def _prefixes(interpreter: Path) -> Iterator[str]:
    """The folders of the installation that an interpreter belongs to, and of each that it links to."""
    link = interpreter
    for _depth in range(10):
        yield from _linked(link.parent.parent if link.parent.name in ("bin", "Scripts") else link.parent)
        if not link.is_symlink():
            break
        link = Path(os.path.normpath(link.parent / link.readlink()))


def _linked(folder: Path) -> Iterator[str]:
    yield str(folder)
    content = content_at(folder / "pyvenv.cfg", MAX_PTH_BYTES, follows_links=True) or b""
    for line in content.decode(errors="replace").splitlines():
        name, _equals, value = line.partition("=")
        if name.strip() == "home" and Path(value.strip()).is_absolute():
            yield str(Path(value.strip()).parent)
