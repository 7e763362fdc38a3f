"""Starts Forkline's own programs as forks of a process that has imported them, in 0.2 s of processor time, not 1.4.

After ``start_as_forks()``, ``subprocess`` asks a process to fork itself for each program of the checkout that this
process starts: ``manage.py``, a module, or code that calls ``django.setup()``. What depends on settings or on the
environment is imported by the fork. The fork is a child of this process, with its own environment, files and
session, as if it had been started. Any other program is started as ever, as is one with other variables that
Python reads when it starts.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("checkpoint_site.server", "tests.")
# Read by Python and its C library when a process starts.
READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_")
# Where the programs are that most forks run.
COMMANDS = ("viewer/management/commands", "viewer/cli/commands")
PROGRAMS = ("checkpoint_site.server", "checkpoint_site.asgi", "viewer.host.remote", "viewer.host.answers", "django.test")
# The number of the system call "clone".
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
CLONE_PARENT = 0x8000
_execute_child: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]


class Prewarmed:
    """The process that forks, started when it is needed first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(self, request: dict[str, Any], files: list[int]) -> int:
        """Return the process id of a program with these three open files."""
        with self._lock:
            if self._socket is None:
                self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                code = f"from tests.prewarmed_programs import serve; serve({other.fileno()})"
                subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=[other.fileno()])
                other.close()
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            return int(self._socket.recv(20))


def start_as_forks() -> None:
    """Let ``subprocess`` start the programs of the checkout as forks."""
    prewarmed = Prewarmed()

    def execute(
        self: Any,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        *others: Any,
    ) -> None:
        startupinfo, flags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest = others
        _restored, gid, gids, uid, umask, start_new_session, *group = rest
        changed = (executable, preexec_fn, pass_fds, shell, gid, gids, uid, umask + 1, *(one + 1 for one in group))
        variables = dict(os.environ if env is None else env)
        if any(changed) or not is_ours(args, cwd, variables):
            _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
            return
        files = [given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        request = {
            "arguments": [str(one) for one in args[1:]],
            "environment": variables,
            "in_new_session": bool(start_new_session),
        }
        self.pid = prewarmed.start(request, files)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    if CLONE:
        subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]


def is_ours(command: Any, folder: Any, variables: dict[str, str]) -> bool:
    """Return whether a fork equals the process that this command starts."""
    if not isinstance(command, list | tuple) or len(command) < 2 or command[0] != sys.executable:
        return False
    kind, name = str(command[1]), str(command[2]) if len(command) > 2 else ""
    is_program = (
        kind == "manage.py" or (kind == "-m" and name.startswith(MODULES)) or (kind == "-c" and "django.setup()" in name)
    )
    return bool(is_program and folder and Path(folder) == ROOT and read_at_start(variables) == read_at_start(os.environ))


def read_at_start(variables: Any) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(READ_AT_START)}


def serve(descriptor: int) -> None:
    """Fork for each request, until the process that asks has ended."""
    import_without_settings()
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack threads"
    # Keep the garbage collector of each fork from touching, and so copying, these objects.
    gc.collect()
    gc.freeze()
    asking = socket.socket(fileno=descriptor)
    while True:
        request, files, _flags, _address = socket.recv_fds(asking, 1 << 20, 3)
        if not request:
            return
        pid = fork_sibling()
        if pid == 0:
            asking.close()
            become(files, **json.loads(request))
        for file in files:
            os.close(file)
        asking.send(str(pid).encode())


def import_without_settings() -> None:
    """Import what programs import, except what needs settings or reads the environment."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
        django.setup()
        commands = [path.relative_to(ROOT) for folder in COMMANDS for path in (ROOT / folder).glob("*.py")]
        for name in (*PROGRAMS, *(".".join(path.with_suffix("").parts) for path in commands)):
            importlib.import_module(name)
        with open(writing, "w") as file:
            file.write("\n".join(sys.modules))
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        names = file.read().split()
    # It chooses the library of SQLite.
    importlib.import_module("checkpoint_site")
    settings = os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    for name in names:
        if name.split(".")[0] not in {"__main__", "checkpoint_site", "tests"}:
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001
                continue
    if settings:
        os.environ["DJANGO_SETTINGS_MODULE"] = settings


def fork_sibling() -> int:
    """Fork a child of this process's parent. Return its process id, or 0 in the fork."""
    python: Any = ctypes.pythonapi
    call: Any = ctypes.PyDLL(None).syscall
    call.restype = ctypes.c_long
    python.PyOS_BeforeFork()
    pid = int(call(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def become(files: list[int], arguments: list[str], environment: dict[str, str], in_new_session: bool) -> None:
    """Run a program as if this process had been started for it, and end."""
    if in_new_session:
        os.setsid()
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    standard_output: Any = sys.stdout
    standard_output.reconfigure(line_buffering=os.isatty(1))
    try:
        run(arguments)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if status and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
    except KeyboardInterrupt:
        status = -signal.SIGINT
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        file.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


def run(arguments: list[str]) -> None:
    """Run ``manage.py …``, ``-m MODULE …`` or ``-c CODE …``."""
    kind, *rest = arguments
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)  # noqa: S102
    elif kind == "-m":
        sys.argv = rest
        sys.path[0] = str(ROOT)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(ROOT)
        runpy.run_path(kind, run_name="__main__")
