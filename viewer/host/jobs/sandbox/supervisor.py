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
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypedDict

if __name__ == "__main__":
    # ``-I`` leaves this out, so that no variable can name another place.
    sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import psutil

from viewer.host import kernel
from viewer.host.jobs import spool
from viewer.host.jobs.process_tree import QUIET_LISTINGS, descendants_of, signal_each
from viewer.host.jobs.sandbox import mounts

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Of each limit: the controller, its file in the second or first version, and the unit.
LIMITS_OF_SCOPE = {
    "memory_mb": ("memory", ("memory.max", "memory.limit_in_bytes"), 1024**2),
    "processes": ("pids", ("pids.max",), 1),
}
# Where the kernel counts what it has refused or killed.
EVENTS_OF_SCOPE = (
    ("memory_mb", "memory", "memory.events", "oom_kill"),
    ("memory_mb", "memory", "memory.oom_control", "oom_kill"),
    ("processes", "pids", "pids.events", "max"),
)
LIMIT_POLL_SECONDS = 0.1
SECONDS_TO_START = 60
# Descendants that start others faster than they are stopped are killed after this time.
SECONDS_TO_STOP = 1.0
# For the descendants that were killed, since one of them has ended.
SECONDS_TO_DIE = 10.0
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
        status, limit = watch(child, request)
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


def tasks_of_user() -> int:
    """The processes and threads of this user, which the kernel counts against its limit of them."""
    count = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == os.getuid():
                count += process.num_threads()
    return count


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


def control_group(controller: str) -> Path:
    """The folder of this process's control group. In their first version, each controller has its own."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    groups = dict(line.split(":", 2)[1:] for line in lines)
    own = f"{controller}/{groups[controller]}" if controller in groups else groups.get("", "")
    return CONTROL_GROUPS / own.lstrip("/")


def refused_in_scope(limits: Mapping[str, int]) -> str:
    """The limit at which the kernel has refused or killed something of this scope; empty for none."""
    for limit, controller, file, name in EVENTS_OF_SCOPE:
        with suppress(FileNotFoundError):
            lines = (control_group(controller) / file).read_text().splitlines()
            if limit in limits and int(dict(line.split() for line in lines).get(name, 0)):
                return limit
    return ""


def forbid_new_processes() -> None:
    """Let no process of this scope start another, if the kernel counts them, so that none can run away."""
    with suppress(OSError):
        (control_group("pids") / "pids.max").write_text("1")


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
        from viewer.host.jobs.sandbox import allowed_hosts

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


def mount_targets(request: SupervisorRequest) -> dict[str, set[mounts.Identity]]:
    """What bubblewrap may mount, by where it may. Links were followed when the paths were chosen."""
    may_write = mounts.identities(request["write"])
    may_read = mounts.identities(request["read"]) | may_write
    temporary = mounts.identities([request["temporary"]])
    found = dict.fromkeys(request["read"], may_read) | dict.fromkeys(request["write"], may_write)
    return found | dict.fromkeys(TEMPORARY_FOLDERS, temporary)


def refuse_other_mounts(
    child: int,
    process: int,
    request: SupervisorRequest,
    targets: Mapping[str, set[mounts.Identity]],
    files: Collection[str],
    end: float,
) -> None:
    """Raise NotStarted if another run has led bubblewrap elsewhere. The run of this process waits meanwhile.

    ``files`` are made for the run.
    """
    while not mounts.are_complete(process, request["temporary"]):
        has_ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if has_ended or time.monotonic() > end:
            raise NotStarted(ended_text(child))
        time.sleep(0.005)
    # A program may have replaced a file of the system since then.
    found = {target: may_be | targets[target] for target, may_be in mount_targets(request).items()}
    if wrong := mounts.wrong_mount(process, found, request["closed"], files):
        raise NotStarted(f"{wrong} leads elsewhere than when the run was prepared")


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


# The limits of all processes of a run together, and its end.


def watch(child: int, request: SupervisorRequest) -> tuple[int, str]:
    """Wait for the end of the run. Return its wait status, and the limit that ended it, or an empty text.

    After SIGTERM, it is ended in time: who kills this process as well could miss a descendant, which would
    then belong to nobody.
    """
    limits, seconds_to_end = request["limits"], request["seconds_to_end"]
    # The processes that are not the run's own.
    uncounted = 2 if request["launcher"] == "bubblewrap" else 0
    is_in_scope = request["launcher"] == "systemd"
    started = time.monotonic()
    wall = limits.get("wall_seconds")
    is_measured = bool({"memory_mb", "cpu_seconds", "processes"} & limits.keys())
    descriptor = os.pidfd_open(child)
    polled = select.poll()
    polled.register(descriptor, select.POLLIN)
    ends, woken = started + wall if wall else None, _wake_at_signals()
    polled.register(woken, select.POLLIN)
    terminated: list[float] = []
    signal.signal(signal.SIGTERM, lambda _number, _frame: terminated.append(time.monotonic()))
    while True:
        due = min(
            (one for one in (ends, *(at + seconds_to_end for at in terminated[:1])) if one), default=None
        )
        left = None if due is None else max(0.0, due - time.monotonic())
        pause = LIMIT_POLL_SECONDS if is_measured else left
        polled.poll(None if pause is None else min(pause, pause if left is None else left) * 1000 + 1)
        with suppress(BlockingIOError):
            os.read(woken, 4096)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            os.close(descriptor)
            return status, refused_in_scope(limits) if is_in_scope else ""
        reap(child)
        now = time.monotonic()
        is_terminated = bool(terminated) and now - terminated[0] >= seconds_to_end
        limit = "wall_seconds" if ends and now >= ends else reached(limits, uncounted)
        limit = limit or (refused_in_scope(limits) if is_in_scope else "")
        if limit or is_terminated:
            os.close(descriptor)
            if is_in_scope:
                forbid_new_processes()
            end_descendants(keep=child)
            _pid, status = os.waitpid(child, 0)
            return status, "" if is_terminated else limit


def _wake_at_signals() -> int:
    """A descriptor that can be read after a signal. Otherwise, waiting continues after its handler."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def reap(child: int) -> None:
    """Wait for descendants whose parent has exited, so that their processor time is counted."""
    for process in psutil.Process().children():
        if process.pid != child:
            with suppress(OSError):
                os.waitpid(process.pid, os.WNOHANG)


def reached(limits: Mapping[str, int], uncounted: int) -> str:
    """The limit that all processes of the run together have reached; empty for none."""
    if not {"memory_mb", "cpu_seconds", "processes"} & limits.keys():
        return ""
    memory, tasks = 0, -uncounted
    found = psutil.Process().children(recursive=True)
    own = os.times()
    seconds = own.children_user + own.children_system
    for process in found:
        with suppress(psutil.Error), process.oneshot():
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
            tasks += process.num_threads()
            memory += process.memory_info().rss
    most = limits.get("memory_mb", 0) * 1024**2
    if most and memory > most and shared_once(found) > most:
        return "memory_mb"
    if 0 < limits.get("cpu_seconds", 0) <= seconds:
        return "cpu_seconds"
    return "processes" if 0 < limits.get("processes", 0) < tasks else ""


def shared_once(processes: Iterable[psutil.Process]) -> int:
    """The memory of processes in bytes, in which what they share counts once.

    What a process shares cannot be read if it has forbidden that with ``PR_SET_DUMPABLE``.
    """
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.AccessDenied:
            with suppress(psutil.Error):
                total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def end_descendants(keep: int = 0) -> None:
    """Kill every descendant, and wait for all but ``keep``. Stopped first, so that none starts another.

    Does not wait for processes that the kernel does not end, or that are another user's.
    """
    stopped: set[int] = set()
    quiet, end = 0, time.monotonic() + SECONDS_TO_STOP
    # One that goes on in a new process all the time can be missed by a listing.
    while quiet < QUIET_LISTINGS and time.monotonic() < end:
        new = descendants_of(os.getpid()) - stopped
        signal_each(new, signal.SIGSTOP)
        stopped |= new
        quiet = 0 if new else quiet + 1
    known: set[int] = set()
    empty, changed_at = 0, time.monotonic()
    while empty < QUIET_LISTINGS and time.monotonic() - changed_at < SECONDS_TO_DIE:
        found = descendants_of(os.getpid())
        signal_each(found, signal.SIGKILL)
        for process in found - {keep}:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        if found != known:
            known, changed_at = found, time.monotonic()
        empty = 0 if found - {keep} else empty + 1
        time.sleep(0.001 if found - {keep} else 0)


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
