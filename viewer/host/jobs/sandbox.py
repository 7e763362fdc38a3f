"""The isolation of runs: what of it works on this machine, which files stay open, and the start itself."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings

from viewer.engines.runner_protocol import Request
from viewer.host import kernel
from viewer.host.confined import PROGRAMS, closed_paths, is_within, parts_without, real_paths
from viewer.host.jobs import supervisor
from viewer.host.jobs.environment import GUARD, MARKER, MAX_PTH_BYTES, path_entries
from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.kept_keys import refuse_other_file
from viewer.host.jobs.process_tree import kill_tree
from viewer.host.jobs.spool import TEMPORARY
from viewer.host.locations.sources import server_of
from viewer.host.projects import CERTIFICATES, NO_PROXY, OF_HOME, PROXIES
from viewer.host_requests import JobRefused
from viewer.models import Location, Project
from viewer.records.isolation import (
    ALLOWED_HOSTS,
    Isolation,
    IsolationRefused,
    allowed_host,
    isolation_of,
    missing,
)
from viewer.validation import content_at

# The launchers and networks that work on this machine. Each is really tried, because rules of the system may
# forbid it.

PROBE_SECONDS = 10


@cache
def launchers() -> dict[str, str]:
    """The launchers by name, and a network of allowed hosts.

    Each has an empty text if it works here, else why not, as the system says it.
    """
    # What its runs have written is read behind Landlock (viewer/host/confined.py).
    bubblewrap = without_filter() or without_landlock(1) or reason_of(BUBBLEWRAP)
    return {
        "process": "",
        "systemd": reason_of([*scope_command(), "true"]),
        "bubblewrap": bubblewrap,
        "landlock": without_filter() or without_landlock(kernel.TRUNCATE_ABI),
        ALLOWED_HOSTS: bubblewrap or without_allowed_hosts(),
    }


BUBBLEWRAP = [
    *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--size", "1048576"),
    *("--tmpfs", "/dev/shm"),  # noqa: S108
    *("--cap-drop", "ALL", "--die-with-parent", "true"),
]


def scope_command(limits: dict[str, int] | None = None) -> list[str]:
    """The start of a command line that runs the rest in a new scope of systemd, with these limits."""
    found = ["systemd-run", *(["--user"] if os.getuid() else []), "--scope", "--quiet", "--collect"]
    limits = limits or {}
    if "memory_mb" in limits:
        found += ["-p", f"MemoryMax={limits['memory_mb']}M", "-p", "MemorySwapMax=0"]
    if "processes" in limits:
        # With the supervisor.
        found += ["-p", f"TasksMax={limits['processes']}"]
    return [*found, "--"]


def reason_of(command: list[str]) -> str:
    """Why a command does not succeed; empty if it does."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        )
    except FileNotFoundError:
        return f"{command[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (_last_line(done.stderr) or f"status {done.returncode}") if done.returncode else ""


def _last_line(printed: bytes) -> str:
    """The last line that a program has printed; empty for none."""
    return "".join(printed.decode(errors="replace").strip().splitlines()[-1:])[:300]


def without_landlock(least: int) -> str:
    """Why Landlock cannot be used; empty if it can. Truncating files is closed from ``TRUNCATE_ABI``."""
    try:
        version = kernel.landlock_version()
    except OSError as error:
        return f"the kernel has no Landlock, or it is switched off: {error.strerror}"
    if version < least:
        return f"the kernel has version {version} of Landlock, which does not close truncating"
    return ""


def without_filter() -> str:
    """Why system calls cannot be filtered; empty if they can."""
    return "" if kernel.has_filter() else f"the filter of system calls does not know {os.uname().machine}"


def without_allowed_hosts() -> str:
    """Why no run can be limited to allowed hosts; empty if one can: ``true`` is started so.

    Nothing is sent to the hosts, a name and an address that exist nowhere.
    """
    with TemporaryDirectory() as folder, TemporaryFile() as report:
        request = supervisor.SupervisorRequest(
            command=["/bin/true"],
            cwd="/",
            environment={},
            launcher="bubblewrap",
            network="hosts",
            allow=["probe.invalid:443"],
            hosts=[("probe.invalid", 443), ("192.0.2.1", 443)],
            limits={},
            read=real_paths(PROGRAMS),
            write=[],
            closed=[],
            folder=folder,
            temporary=folder,
            hidden=folder,
            umask=0o077,
            seconds_to_end=1.0,
            report=report.fileno(),
        )
        try:
            done = subprocess.run(
                [sys.executable, "-I", supervisor.__file__],
                check=False,
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=PROBE_SECONDS,
                start_new_session=True,
                pass_fds=(report.fileno(),),
            )
            report.seek(0)
            answer = json.loads(report.read() or b"{}")
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return str(error)[:300]
    if "in_force" in answer:
        return ""
    # What bubblewrap itself prints says more.
    return _last_line(done.stderr) or str(answer.get("refused") or f"status {done.returncode}")[:300]


# Which files a run in a sandbox may open: the least that it needs to run as it does outside one.

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
# In bubblewrap, these processes have their own folder.
OF_LANDLOCK = ("/proc",)
# The package ``viewer``: the runners, and what they load by path.
FORKLINE = Path(__file__).resolve().parents[2]


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
    paths = [location["path"] if location else ""]
    checkpoint = request.get("checkpoint")
    if checkpoint and not checkpoint.get("stored"):
        source, is_file = checkpoint.get("source", ""), location and location["store_kind"] == "json"
        paths.append(source if is_file else source.rpartition("#")[0])
    for path in map(Path, paths):
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


# The start itself.

SECONDS_TO_REPORT = 90
MAX_REPORT_BYTES = 64 * 1024
# Of the supervisor, which is outside the sandbox: nothing of the project's environment.
OF_SUPERVISOR = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
# Of the time after SIGTERM, in which a supervisor ends its run, before both are killed.
OF_GRACE = 0.5


def isolation_for(project: Project) -> Isolation:
    """What the project asks for, if this machine has it. Raises JobRefused."""
    try:
        isolation = isolation_of(project.isolation)
    except IsolationRefused as refused:
        raise JobRefused(refused.message) from None
    if isolation.is_off:
        return isolation
    if reason := missing(isolation, launchers()):
        raise JobRefused(reason)
    if isolation.is_sandboxed:
        refuse_other_file(project)
    if isolation.network == "hosts":
        _refuse_other_key_addresses(isolation, project)
    return isolation


def _refuse_other_key_addresses(isolation: Isolation, project: Project) -> None:
    """Raise JobRefused if a key that stays with Forkline goes to an address that runs may not reach.

    The key proxy, which is outside the sandbox, would lead there.
    """
    for variable, address in sorted(project.kept_keys.items()):
        parts = urlsplit(address)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        try:
            found = allowed_host(f"{host}:{parts.port or (80 if parts.scheme == 'http' else 443)}")
        except (IsolationRefused, ValueError):
            found = address
        if found not in isolation.allow:
            raise JobRefused("isolation.key_address_not_allowed", variable=variable, host=found)


def refuse_other_database(isolation: Isolation, location: Location | None) -> None:
    """Raise JobRefused if a run with allowed hosts could not connect to the database of its location."""
    if isolation.network != "hosts" or location is None:
        return
    if location.store_kind != Location.StoreKind.POSTGRESQL:
        return
    for host, port in server_of(location).hosts:
        try:
            found = allowed_host(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except IsolationRefused:
            raise JobRefused("isolation.database_without_host", name=location.path) from None
        if found not in isolation.allow:
            raise JobRefused("isolation.database_not_allowed", name=location.path, host=found)


def refuse_isolated(project: Project) -> None:
    """Raise JobRefused if a program of the project that is no run may not start: it would have no sandbox."""
    if not isolation_for(project).is_off:
        raise JobRefused("isolation.only_runs")


def start_isolated(
    isolation: Isolation,
    project: Project,
    storage: JobStorage,
    command: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    log: int,
    lock: int,
    key_proxy: tuple[str, int] | None,
) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
    """Start a run in a new session, and wait until its sandbox is in force. Raises JobRefused, OSError.

    Returns its supervisor, and what is in force. A run with allowed hosts reaches the ``key_proxy`` as well.
    """
    own = Path(storage.runner_argument)
    temporary = own / TEMPORARY
    temporary.mkdir(mode=0o700, exist_ok=True)
    variables, paths = dict(environment), OpenPaths([], [], [])
    if isolation.is_sandboxed:
        (temporary / "home").mkdir(mode=0o700, exist_ok=True)
        # The user's home is closed.
        for name in OF_HOME:
            variables.pop(name, None)
        variables |= {"HOME": str(temporary / "home"), "TMPDIR": str(temporary)}
        request = cast(Request, storage.read_request())
        paths = open_paths(isolation, project, request, environment, own, command[1])
    if isolation.network == "hosts":
        # Each allowed host is reached at its own name, and another proxy is none of them.
        for name in (*PROXIES, *NO_PROXY):
            variables.pop(name, None)
    reading, report = os.pipe()
    with open(reading, "rb", buffering=0) as reported:
        with open(report, "wb", buffering=0):
            document = supervisor.SupervisorRequest(
                command=list(command),
                cwd=folder,
                environment=variables,
                launcher=isolation.launcher,
                network=isolation.network,
                allow=list(isolation.allow),
                hosts=[*isolation.hosts, *([key_proxy] if key_proxy and isolation.allow else [])],
                limits=isolation.limits,
                read=paths.read,
                write=paths.write,
                closed=paths.closed,
                folder=str(own),
                temporary=str(temporary),
                hidden=str(Path(settings.DATA_DIR).resolve()),
                umask=settings.USERS_UMASK,
                seconds_to_end=settings.CANCEL_GRACE_SECONDS * OF_GRACE,
                report=report,
            )
            scope = scope_command(isolation.limits) if isolation.launcher == "systemd" else []
            given, _number = supervisor.in_memory(json.dumps(document).encode())
            with given:
                process = subprocess.Popen(
                    [*scope, sys.executable, "-I", supervisor.__file__],
                    env={name: os.environ[name] for name in OF_SUPERVISOR if name in os.environ}
                    | {MARKER: storage.name},
                    stdin=given,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(lock, report),
                )
        answer = _answer(reported)
    if "in_force" not in answer:
        _end(process)
        reason = str(answer.get("refused") or f"its supervisor ended with status {process.returncode}")
        raise JobRefused("isolation.not_started", launcher=isolation.launcher, reason=reason)
    return process, answer["in_force"]


def _answer(file: Any) -> dict[str, Any]:
    """What the supervisor reports; empty if it ends without a report, or does not report in time."""
    end = time.monotonic() + SECONDS_TO_REPORT
    data, poll = b"", select.poll()
    poll.register(file, select.POLLIN)
    while not data.endswith(b"\n") and len(data) < MAX_REPORT_BYTES:
        ready = poll.poll(1000 * max(0.0, end - time.monotonic()))
        part = file.read(MAX_REPORT_BYTES) if ready else b""
        if not part:
            break
        data += part
    with suppress(ValueError):
        found = json.loads(data)
        return found if isinstance(found, dict) else {}
    return {}


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a supervisor that has started nothing, or did not report. What it started ends with it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
        return
    kill_tree(process.pid)
    process.kill()
    process.wait()
