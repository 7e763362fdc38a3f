"""The program that stays outside the sandbox: starts a run in it, and ends it at its limits.

    <Forkline's interpreter> -I supervisor.py < request

It belongs to the run's job, and so does its session. It reads a ``SupervisorRequest`` as JSON, and writes
one line of JSON to the descriptor ``report``: what is in force, or why nothing was started. Nothing of the
project has run before. It exits as the run does, when no descendant of the run is left.

The environment of the run, which the project's file may set, is not its own: ``LD_PRELOAD`` would be loaded
into a process outside the sandbox.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypedDict

if __name__ == "__main__":
    # ``-I`` leaves this out, so that no variable can name another place.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import psutil

from viewer.host import kernel
from viewer.host.jobs import spool
from viewer.host.jobs.process_tree import control_group, end_descendants, tasks_of_user, watch

# Of each limit: the controller, its file in the second or first version, and the unit.
LIMITS_OF_SCOPE = {
    "memory_mb": ("memory", ("memory.max", "memory.limit_in_bytes"), 1024**2),
    "processes": ("pids", ("pids.max",), 1),
}
SECONDS_TO_START = 60
# Shared memory of a sandbox, as much as Docker has it.
SHARED_MEMORY_BYTES = 64 * 1024**2
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108
# What a program in a container of its own needs besides its files.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class SupervisorRequest(TypedDict):
    """What the host asks for. Paths are absolute, and without links.

    ``allow`` are the allowed hosts as the project has them, if the network is ``hosts``, and ``hosts`` all
    hosts and ports that the run reaches. ``read`` and ``write`` are the folders and files that stay open, and
    ``closed`` those within them that do not. ``temporary`` is the run's folder for temporary files, below
    ``folder``, the job's. ``hidden`` is a folder that the run must not be able to open, by which the sandbox
    is tested. ``seconds_to_end`` is what the run has between SIGTERM and its end.
    """

    command: list[str]
    cwd: str
    environment: dict[str, str]
    launcher: str
    network: str
    allow: list[str]
    hosts: list[tuple[str, int]]
    limits: dict[str, int]
    read: list[str]
    write: list[str]
    closed: list[str]
    folder: str
    temporary: str
    hidden: str
    umask: int
    seconds_to_end: float
    report: int


class NotStarted(Exception):
    """The sandbox or limits could not be had. The message is the system's."""


def main() -> NoReturn:
    """Start the run, wait for its end, and exit with its status."""
    request: SupervisorRequest = json.loads(sys.stdin.buffer.read())
    # A run that inherits it could report what is not in force.
    os.set_inheritable(request["report"], False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # SIGINT and SIGTERM are for the run, in the same group.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    try:
        child, facts = start(request)
    except (NotStarted, OSError, ValueError, psutil.Error) as error:
        end_descendants()
        answer(request["report"], {"refused": str(error) or type(error).__name__})
        sys.exit(1)
    answer(request["report"], {"in_force": facts})
    try:
        status, limit = watch(child, request["limits"], request["launcher"], request["seconds_to_end"])
    finally:
        end_descendants()
    if limit:
        record_end(Path(request["folder"]), limit, request["limits"][limit])
    exit_like(status)


def answer(report: int, document: Mapping[str, Any]) -> None:
    """Tell the host, which may have been killed."""
    with suppress(OSError):
        os.write(report, json.dumps(document).encode() + b"\n")
    os.close(report)


def start(request: SupervisorRequest) -> tuple[int, dict[str, Any]]:
    """Start the run. Return its process and what is in force. Raises NotStarted, OSError, psutil.Error."""
    facts: dict[str, Any] = {"launcher": request["launcher"], "network": request["network"]}
    limits = request["limits"]
    other_tasks = None if os.getuid() == 0 else tasks_of_user()
    if limits:
        facts["limits"] = dict(limits)
        facts["enforced_by"] = dict.fromkeys(limits, "process")
        for name in ("memory_mb", "cpu_seconds", "processes", "wall_seconds"):
            if name in limits:
                facts["enforced_by"][name] = "supervisor"
    if request["launcher"] == "systemd":
        facts |= scope_facts(facts.get("enforced_by", {}), limits)
    if request["launcher"] == "bubblewrap":
        child, found = start_bubblewrap(request, other_tasks)
    elif request["network"] == "hosts":
        raise NotStarted("only bubblewrap can allow single hosts")
    else:
        child, found = start_here(request, other_tasks)
    return child, facts | found


def scope_facts(enforced_by: dict[str, str], limits: Mapping[str, int]) -> dict[str, Any]:
    """What the control group of this scope enforces. Raises NotStarted if it lacks what was asked for."""
    if not control_group("").name.endswith(".scope"):
        raise NotStarted("systemd has started the run outside a scope")
    for name, (controller, files, unit) in LIMITS_OF_SCOPE.items():
        if name not in limits:
            continue
        file = next((one for one in map(control_group(controller).joinpath, files) if one.exists()), None)
        if file is None:
            raise NotStarted(f"the control group of the scope does not limit {controller}")
        text = file.read_text().strip()
        if text == "max" or int(text) > limits[name] * unit:
            raise NotStarted(f"{file.name} of the scope is {text}")
        enforced_by[name] = "systemd"
    return {"scope": control_group("").name}


# A run without other mounts: a plain process with limits, one in a scope, or one behind Landlock.


def start_here(request: SupervisorRequest, other_tasks: int | None) -> tuple[int, dict[str, Any]]:
    """Start the run as a child. Return its process and what is in force. Raises NotStarted, OSError."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            facts = enter(request, other_tasks)
            os.write(writing, json.dumps(facts).encode())
            run_command(request)
        except BaseException as error:
            os.write(writing, json.dumps({"refused": str(error) or type(error).__name__}).encode() + b"\n")
            os._exit(127)
    os.close(writing)
    with open(reading, "rb") as file:
        # Until the program is executed, or the child has written why not.
        found = [json.loads(line) for line in file.read().replace(b"}{", b"}\n{").splitlines()]
    refused = next((one["refused"] for one in found if "refused" in one), "" if found else "it was killed")
    if refused:
        os.waitpid(child, 0)
        raise NotStarted(refused)
    return child, found[0]


def enter(request: SupervisorRequest, other_tasks: int | None) -> dict[str, Any]:
    """Put this process into the sandbox, and set its limits. Return what is in force. Raises OSError."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.umask(request["umask"])
    kernel.limit_resources(request["limits"], other_tasks)
    if request["launcher"] != "landlock":
        return {}
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.drop_capabilities()
    has_network = request["network"] == "all"
    devices = [one for one in DEVICES if Path(one).exists()]
    version = kernel.restrict_files(request["read"], [*request["write"], *devices], network=has_network)
    kernel.install_filter(kernel.system_call_filter(families(request["network"], is_own=False)))
    refuse_open(request["hidden"])
    return {"landlock": version, "sandboxed": True, "signals": version < kernel.SCOPE_ABI}


def families(network: str, *, is_own: bool) -> tuple[int, ...]:
    """The families of sockets that a run may have. With a network of its own, they lead nowhere else.

    A Unix socket in an open folder may belong to a program outside, which could have the whole network.
    """
    if is_own and network == "none":
        return (kernel.AF_UNIX, kernel.AF_INET, kernel.AF_INET6, kernel.AF_NETLINK)
    return () if network == "none" else (kernel.AF_INET, kernel.AF_INET6, kernel.AF_NETLINK)


def refuse_open(hidden: str) -> None:
    """Raise NotStarted if this process can open a folder that the sandbox should hide."""
    try:
        os.close(os.open(hidden, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return
    raise NotStarted(f"{hidden} can be opened in the sandbox")


def run_command(request: SupervisorRequest) -> NoReturn:
    """Become the run. Raises OSError."""
    os.chdir(request["cwd"])
    os.execve(request["command"][0], request["command"], request["environment"])  # noqa: S606


# A run with mounts, processes and, unless it has all of it, a network of its own.


def start_bubblewrap(request: SupervisorRequest, other_tasks: int | None) -> tuple[int, dict[str, Any]]:
    """Start the run in bubblewrap. Return bubblewrap's process, and what is in force.

    Raises NotStarted, OSError, psutil.Error.
    """
    is_own = request["network"] != "all"
    hosts = [(host, port) for host, port in request["hosts"]]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    files: dict[str, tuple[Any, int]] = {}
    if hosts:
        # Only here, because it needs asyncio.
        from viewer.host.jobs import allowed_hosts

        files = {path: in_memory(data) for path, data in allowed_hosts.files(hosts).items()}
    found = bubblewrap_options(request, {path: number for path, (_file, number) in files.items()})
    options, given = in_memory(b"\0".join(map(os.fsencode, found)) + b"\0")
    program, filtered = in_memory(kernel.system_call_filter(families(request["network"], is_own=is_own)))
    reading, writing = os.pipe()
    # bubblewrap starts the run once something was written to it.
    held, release = os.pipe()
    targets = mount_targets(request)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            # The supervisor passes SIGINT on to the run, which has its own session: bubblewrap would end.
            os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            os.umask(request["umask"])
            kernel.limit_resources(request["limits"], other_tasks)
            for descriptor in (given, filtered, writing, held, *(number for _file, number in files.values())):
                os.set_inheritable(descriptor, True)
            command = ["bwrap", "--args", str(given), "--seccomp", str(filtered), "--json-status-fd"]
            command += [str(writing), "--block-fd", str(held)]
            clean = {"PATH": os.environ.get("PATH", os.defpath)}
            os.execvpe("bwrap", [*command, "--", *request["command"]], clean)  # noqa: S606, S607
        except BaseException as error:
            os.write(2, f"{error}\n".encode())
            os._exit(127)
    for file in (options, program, *(file for file, _number in files.values())):
        file.close()
    for descriptor in (writing, held):
        os.close(descriptor)
    end = time.monotonic() + SECONDS_TO_START
    # The status stays open: bubblewrap writes to it again at its end.
    document = first_status(child, reading, end)
    refuse_other_mounts(child, int(document["child-pid"]), request, targets, list(files), end)
    if hosts:
        reached = allowed_hosts.endpoints(hosts)
        listeners = allowed_hosts.listen_within(int(document["child-pid"]), list(reached), end)
        allowed_hosts.forward(dict(zip(listeners, reached.values(), strict=True)), log=2)
    with suppress(BrokenPipeError):
        os.write(release, b"1")
    os.close(release)
    facts = bubblewrap_facts(child, reading, document, end, is_own=is_own, hidden=request["hidden"])
    return child, facts | ({"hosts": request["allow"]} if hosts else {})


def in_memory(data: bytes) -> tuple[Any, int]:
    """An anonymous file with these bytes, and its descriptor. It is on no disk."""
    file = os.fdopen(os.memfd_create("forkline"), "w+b")
    file.write(data)
    file.flush()
    file.seek(0)
    return file, file.fileno()


def bubblewrap_options(request: SupervisorRequest, files: Mapping[str, int]) -> list[str]:
    """The options of bubblewrap, without the command. The environment is in them, which others could see.

    ``files`` are those that the run gets instead of the system's, by their paths, as open descriptors.
    """
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--new-session", "--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    options += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    if request["network"] != "all":
        options.append("--unshare-net")
    # Targets, and where they lead. The deeper target decides, and of the same one what is written.
    binds = [(path, "--ro-bind-try", path) for path in request["read"] if path not in files]
    binds += [(path, "--bind-try", path) for path in request["write"]]
    binds += [(folder, "--bind", request["temporary"]) for folder in TEMPORARY_FOLDERS]
    for path in request["closed"]:
        if Path(path).is_dir():
            binds.append((path, "--tmpfs", ""))
        elif Path(path).exists():
            binds.append((path, "--ro-bind", "/dev/null"))
    # A link within another folder is there already, and so is where it leads. Nothing can be mounted on it.
    roots = {target for target, _kind, source in binds if source == target}
    binds = [
        one
        for one in binds
        if os.path.realpath(one[0]) == one[0] or roots.isdisjoint(map(str, Path(one[0]).parents))
    ]
    for target, kind, source in sorted(binds, key=lambda one: (len(Path(one[0]).parts), "ro" not in one[1])):
        options += [kind, source, target] if source else [kind, target]
    for path, descriptor in files.items():
        options += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    # Once everything within them is mounted.
    for target in ("/", *(target for target, kind, _source in binds if kind == "--tmpfs")):
        options += ["--remount-ro", target]
    options += ["--chdir", request["cwd"], "--clearenv"]
    for name, value in request["environment"].items():
        options += ["--setenv", name, value]
    return options


# What bubblewrap has mounted before the run starts: it takes paths, which may lead elsewhere by then.
#
# Another run that may write a folder can replace what is in it by links, also those on which something is
# mounted. What is mounted stays, so the check is final.

# A device and a number.
Identity = tuple[int, int]
# What bubblewrap mounts itself, by file system.
OWN_MOUNTS = {
    **{"/": "tmpfs", "/dev": "tmpfs", "/dev/shm": "tmpfs"},  # noqa: S108
    **{"/dev/pts": "devpts", "/dev/mqueue": "mqueue"},
}
OWN_DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "console")}
ESCAPED = re.compile(r"\\([0-7]{3})")


def mount_targets(request: SupervisorRequest) -> dict[str, set[Identity]]:
    """What bubblewrap may mount, by where it may. Links were followed when the paths were chosen."""
    may_write = identities(request["write"])
    may_read = identities(request["read"]) | may_write
    temporary = identities([request["temporary"]])
    found = dict.fromkeys(request["read"], may_read) | dict.fromkeys(request["write"], may_write)
    return found | dict.fromkeys(TEMPORARY_FOLDERS, temporary)


def refuse_other_mounts(
    child: int,
    process: int,
    request: SupervisorRequest,
    targets: Mapping[str, set[Identity]],
    files: Collection[str],
    end: float,
) -> None:
    """Raise NotStarted if another run has led bubblewrap elsewhere. The run of this process waits meanwhile.

    ``files`` are made for the run.
    """
    while not mounts_are_complete(process, request["temporary"]):
        has_ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if has_ended or time.monotonic() > end:
            raise NotStarted(ended_text(child))
        time.sleep(0.005)
    # A program may have replaced a file of the system since then.
    found = {target: may_be | targets[target] for target, may_be in mount_targets(request).items()}
    if wrong := wrong_mount(process, found, request["closed"], files):
        raise NotStarted(f"{wrong} leads elsewhere than when the run was prepared")


def identities(paths: Iterable[str]) -> set[Identity]:
    """What is at these paths, but for those that lead through a link."""
    found = set()
    for path in paths:
        with suppress(OSError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                if str(Path(f"/proc/self/fd/{opened}").readlink()) == path:
                    found.add(_identity(os.fstat(opened)))
            finally:
                os.close(opened)
    return found


def mounts_are_complete(process: int, temporary: str) -> bool:
    """Whether a process in bubblewrap sees its own ``/tmp``, and so everything that is mounted."""
    if _identity_of(seen(process, "/tmp")) != _identity(Path(temporary).stat()):  # noqa: S108
        return False
    # bubblewrap unmounts its former root last.
    with suppress(OSError):
        return [point for point, _kind in mounts_of(process)].count("/") == 1
    return False


def wrong_mount(
    process: int, targets: Mapping[str, set[Identity]], closed: Collection[str], files: Collection[str]
) -> str:
    """Where a process sees something that was not chosen; empty if it does so nowhere.

    ``targets`` are the paths at which something may be mounted, with what that may be. Nothing of what is
    outside may be at those in ``closed``, and ``files`` are made for this run.
    """
    mounted = mounts_of(process)
    outside = {point for point, _kind in mounts_of(os.getpid())}
    times = Counter(point for point, _kind in mounted)
    for point, kind in mounted:
        if point in targets or point in closed or point in files:
            continue
        is_own = times[point] == 1 and (OWN_MOUNTS.get(point) == kind or _is_device(process, point))
        # bubblewrap protects parts of /proc so. Mounts outside come with the folders that they are in.
        is_within = any(point.startswith(f"{target.rstrip('/')}/") for target in targets)
        if not (
            is_own
            or (kind == "proc" and f"{point}/".startswith("/proc/"))
            or (is_within and point in outside)
        ):
            return point
    for target, may_be in targets.items():
        found = None if target in closed or target in files else seen(process, target)
        if found is not None and not stat.S_ISLNK(found.st_mode) and _identity(found) not in may_be:
            return target
    for target in closed:
        with suppress(OSError):
            if _identity_of(seen(process, target)) == _identity(Path(target).stat()):
                return target
    return ""


def mounts_of(process: int) -> list[tuple[str, str]]:
    """Where something is mounted, and the type of its file system. Raises OSError."""
    found = []
    for line in Path(f"/proc/{process}/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _mark, after = line.partition(" - ")
        point = ESCAPED.sub(lambda one: chr(int(one[1], 8)), before.split(" ")[4])
        found.append((point, after.split(" ", 1)[0]))
    return found


def seen(process: int, path: str) -> os.stat_result | None:
    """What a process sees at a path; None if that is nothing, or behind a link."""
    opened = -1
    try:
        opened = os.open(f"/proc/{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in Path(path).parts[1:]:
            above, opened = opened, os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
            os.close(above)
        return os.fstat(opened)
    except OSError:
        return None
    finally:
        if opened >= 0:
            os.close(opened)


def _is_device(process: int, point: str) -> bool:
    found = seen(process, point) if point in OWN_DEVICES else None
    return found is not None and stat.S_ISCHR(found.st_mode)


def _identity_of(status: os.stat_result | None) -> Identity | None:
    return _identity(status) if status else None


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


# What is in force once bubblewrap has started the run.


def bubblewrap_facts(
    child: int, reading: int, document: Mapping[str, Any], end: float, *, is_own: bool, hidden: str
) -> dict[str, Any]:
    """What bubblewrap has put up, once the run is started. Raises NotStarted, OSError, psutil.Error.

    ``document`` is its first status.
    """
    namespaces = ["pid", "mnt", "user", "ipc", *(["net"] if is_own else [])]
    facts = {"sandboxed": True, "namespaces": namespaces}
    while time.monotonic() < end:
        # The run may have ended already.
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            if run := _run_below(psutil.Process(int(document["child-pid"]))):
                refuse_shared([one for one in namespaces if _namespace(run, one) == _namespace("self", one)])
                if is_same(run, hidden):
                    raise NotStarted(f"{hidden} can be opened in the sandbox")
                pass_interrupts(run)
                return facts
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if b"exit-code" not in os.read(reading, 4096):
                raise NotStarted(ended_text(child))
            # Of a run that has ended, bubblewrap has written the numbers of its namespaces.
            numbers = {one: document.get(f"{one}-namespace") for one in namespaces if one != "user"}
            refuse_shared(
                [one for one, number in numbers.items() if f"[{number}]" in _namespace("self", one)]
            )
            refuse_shared([one for one, number in numbers.items() if not number])
            return facts
        time.sleep(0.005)
    raise NotStarted("bubblewrap has not started the run in time")


def first_status(child: int, reading: int, end: float) -> dict[str, Any]:
    """What bubblewrap writes once it has made the namespaces. Raises NotStarted."""
    text = b""
    while time.monotonic() < end and b"}\n" not in text:
        ready, _w, _x = select.select([reading], [], [], 0.1)
        part = os.read(reading, 1) if ready else None
        if part == b"":
            break
        text += part or b""
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        raise NotStarted(ended_text(child)) from None
    if "child-pid" not in found:
        raise NotStarted(ended_text(child))
    return found


def refuse_shared(namespaces: list[str]) -> None:
    """Raise NotStarted if the run shares namespaces with the rest of the machine."""
    if namespaces:
        raise NotStarted(f"bubblewrap shares the namespaces {', '.join(namespaces)}")


def pass_interrupts(run: int) -> None:
    """Send SIGINT on to the run's own session, also one that has come already."""

    def send(_number: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(run), signal.SIGINT)

    signal.signal(signal.SIGINT, send)
    # It was blocked until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def ended_text(child: int) -> str:
    """Say how bubblewrap ended. Its message is in the log."""
    _pid, status = os.waitpid(child, os.WNOHANG)
    return f"bubblewrap ended with status {os.waitstatus_to_exitcode(status)}: its message is in the output"


def is_same(process: int, folder: str) -> bool:
    """Whether a process sees the same folder as this one at a path."""
    with suppress(OSError):
        return Path(f"/proc/{process}/root{folder}").samefile(folder)
    return False


def _run_below(first: psutil.Process) -> int:
    """The process that bubblewrap's first one has started, once it is another program; 0 before."""
    found = first.children()
    return found[0].pid if found and _program_of(found[0]) != _program_of(first) else 0


def _program_of(process: psutil.Process) -> tuple[int, int] | None:
    with suppress(OSError):
        found = Path(f"/proc/{process.pid}/exe").stat()
        return found.st_dev, found.st_ino
    return None


def _namespace(process: int | str, name: str) -> str:
    return str(Path(f"/proc/{process}/ns/{name}").readlink())


# The end of the run.


def record_end(folder: Path, limit: str, most: int) -> None:
    """Append the end of the run to its events, unless it has reported one. Never raises."""
    with suppress(OSError):
        seq, offset = 0, 0
        while True:
            events, after = spool.read_events(folder, offset)
            if after == offset:
                break
            if any(event["kind"] == "ended" for event in events):
                return
            seq, offset = max([seq, *(event["seq"] for event in events)]), after
        message = {"code": "isolation.limit_reached", "values": {"limit": limit, "most": most}}
        data = {"status": "failed", "error": message}
        event = spool.SpoolEvent(seq=seq + 1, at=time.time(), kind="ended", data=data)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(folder / spool.EVENTS, flags, 0o600), "wb") as file:
            # The run may have been killed within a line.
            file.write(b"\n" + json.dumps(event).encode() + b"\n")


def exit_like(status: int) -> NoReturn:
    """Exit as the run did. bubblewrap reports a signal as a number above 128."""
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - 128
    if code < 0 or number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
    os._exit(code)


if __name__ == "__main__":
    main()
