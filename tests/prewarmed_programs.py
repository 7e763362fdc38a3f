"""Starts Forkline's programs as forks of a process that has imported them: 0.1 s of a processor, not 1.4 s.

After ``start_as_forks()``, ``subprocess`` has a process fork itself for each program of the checkout that it
is asked to start: ``manage.py``, ``forkline``, a module, or code that calls ``django.setup()``. What depends
on the environment, or on other settings than those of models, is imported by the fork. The fork is a child of
this process with its own environment, files and session, as if it had been started. If a command starts
further programs, it forks for them in the same way. Any other program is started normally, and so is one with
other variables that Python reads when it starts.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import platform
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("checkpoint_site.server", "django checkpoints", "tests.")
# Code that runs ``forkline`` in any folder, as an installed command does; code that sets up Django itself.
COMMAND = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from checkpoint_site.command import main; main()"
OWN_CODE = re.compile(r"django\.setup\(\)|^from checkpoint_site import server\b")
# The command that starts programs of the checkout. Tests find those of ``up`` by their arguments.
STARTING = re.compile(r"\bmove\b")
# Read by Python and its C library when a process starts.
READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_")
# Where the programs are that most forks run.
COMMANDS = ("viewer/management/commands", "viewer/cli/commands")
PROGRAMS = (
    "checkpoint_site.server",
    "checkpoint_site.asgi",
    "viewer.host.remote",
    "viewer.host.answers",
    "django.test",
)
# Settings modules that change nothing when they are imported. With them, ``DATABASE_URL`` decides which apps
# there are.
USUAL_SETTINGS = {"checkpoint_site.settings", "tests.jobs.worker_settings"}
ADDRESS = "postgresql://nobody@localhost/forkline"
# The settings that models read when they are imported.
MODEL_SETTINGS = ("INSTALLED_APPS", "AUTH_USER_MODEL", "DEFAULT_AUTO_FIELD", "LANGUAGE_CODE", "USE_I18N")
# django-allauth takes a default in place of a setting that is missing, and checks the middleware.
ALLAUTH_SETTINGS = ("ACCOUNT_", "MFA_", "SOCIALACCOUNT_", "MIDDLEWARE")
# The number of the system call "clone".
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
CLONE_PARENT = 0x8000
# The arguments of ``subprocess`` that a fork does not know, and their usual values.
USUAL = {
    **dict.fromkeys(("executable", "preexec_fn", "gid", "gids", "uid")),
    **{"pass_fds": (), "shell": False, "umask": -1, "process_group": -1},
}
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class Prewarmed:
    """A process that forks, started when it is needed first.

    It has the models of the usual settings with a DATABASE_URL like this one, or no models if that is None.
    """

    def __init__(self, url: str | None, asked: socket.socket | None = None) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._socket = asked

    def start(self, request: dict[str, Any], files: list[int]) -> int:
        """Return the process id of a program with these three open files."""
        with self._lock:
            if self._socket is None:
                self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                arguments = f"{other.fileno()}, {self._url!r}"
                code = f"from tests.prewarmed_programs import serve; serve({arguments})"
                subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=[other.fileno()])
                other.close()
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            return int(self._socket.recv(20))


def start_as_forks() -> None:
    """Let ``subprocess`` start the programs of the checkout as forks."""
    fork_from({url: Prewarmed(url) for url in (None, "", ADDRESS)})


def fork_from(prewarmed: Mapping[str | None, Prewarmed]) -> None:
    """Let ``subprocess`` start them as forks of these processes, by their DATABASE_URL."""
    popen: Any = subprocess.Popen
    execute_child = popen._execute_child
    parameters = inspect.signature(execute_child)

    def execute(self: Any, *values: Any) -> None:
        given = parameters.bind(self, *values).arguments
        variables = dict(os.environ if given["env"] is None else given["env"])
        folder = Path(given["cwd"] or ".").resolve()
        is_usual = all(given[name] == value for name, value in USUAL.items())
        if not is_usual or not is_ours(given["args"], folder, variables):
            execute_child(self, *values)
            return
        pipes = [given[name] for name in PIPES]
        read_from, _, _, write_to, _, errors_to = pipes
        arguments = [str(one) for one in given["args"][1:]]
        request = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": variables,
            "in_new_session": bool(given["start_new_session"]),
        }
        files = [end if end != -1 else own for own, end in enumerate((read_from, write_to, errors_to))]
        settings = variables.get("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
        has_models = settings in USUAL_SETTINGS and not STARTING.search(" ".join(arguments))
        url = (ADDRESS if variables.get("DATABASE_URL") else "") if has_models else None
        self.pid = prewarmed.get(url, prewarmed[None]).start(request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    if CLONE:
        popen._execute_child = execute


def is_ours(command: Any, folder: Path, variables: Mapping[str, str]) -> bool:
    """Return whether a fork equals the process that this command starts."""
    if not isinstance(command, list | tuple) or len(command) < 2 or command[0] != sys.executable:
        return False
    kind, name, is_here = str(command[1]), " ".join(map(str, command[2:4])), folder == ROOT
    is_program = {
        "manage.py": is_here,
        str(ROOT / "manage.py"): True,
        "-m": is_here and name.startswith(MODULES),
        "-c": name.startswith(COMMAND) or (is_here and bool(OWN_CODE.search(name))),
    }
    return is_program.get(kind, False) and read_at_start(variables) == read_at_start(os.environ)


def read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(READ_AT_START)}


def serve(descriptor: int, url: str | None) -> None:
    """Import what programs import, and fork for each request."""
    import_programs(url)
    answer(socket.socket(fileno=descriptor))


def answer(asking: socket.socket) -> None:
    """Fork for each request, until the process that asks has ended."""
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would lack threads"
    # Keep the garbage collector of each fork from touching, and so copying, these objects.
    gc.collect()
    gc.freeze()
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


def import_programs(url: str | None) -> None:
    """Import what programs import, except what needs other settings or reads the environment."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        import django

        os.environ |= {"DJANGO_SETTINGS_MODULE": "checkpoint_site.settings", "DATABASE_URL": url or ""}
        django.setup()
        commands = [path.relative_to(ROOT) for folder in COMMANDS for path in (ROOT / folder).glob("*.py")]
        for name in (*PROGRAMS, *(".".join(path.with_suffix("").parts) for path in commands)):
            importlib.import_module(name)
        allauth = [name for name in dir(django.conf.settings) if name.startswith(ALLAUTH_SETTINGS)]
        settings = {name: getattr(django.conf.settings, name) for name in (*MODEL_SETTINGS, *allauth)}
        with open(writing, "w") as file:
            json.dump([list(sys.modules), settings], file)
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        names, values = json.load(file)
    os.waitpid(child, 0)
    # It chooses the library of SQLite.
    importlib.import_module("checkpoint_site")
    with no_settings() if url is None else settings_of_models(values):
        for name in names:
            if name.split(".")[0] not in {"__main__", "checkpoint_site", "tests"}:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    # It reads the secret key when it is imported, so only some of its modules could be.
    for name in [one for one in sys.modules if one.split(".")[0] == "sesame"]:
        del sys.modules[name]


@contextlib.contextmanager
def no_settings() -> Iterator[None]:
    """Have modules that read settings fail to be imported."""
    settings = os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    yield
    if settings:
        os.environ["DJANGO_SETTINGS_MODULE"] = settings


@contextlib.contextmanager
def settings_of_models(values: dict[str, Any]) -> Iterator[None]:
    """Have modules that read other settings than models do fail to be imported."""
    from django import conf
    from django.apps import apps
    from django.conf import global_settings
    from django.db import connections
    from django.utils.translation import trans_real

    same = ["DEBUG", "ABSOLUTE_URL_OVERRIDES", "DATABASES", "LOCALE_PATHS"]
    same += ["DEFAULT_INDEX_TABLESPACE", "DEFAULT_TABLESPACE"]
    values |= {name: getattr(global_settings, name) for name in same}
    untyped: Any = conf
    untyped.settings._wrapped = types.SimpleNamespace(**values)
    apps.populate(values["INSTALLED_APPS"])
    yield
    # Each fork loads its settings, connections and languages again.
    untyped.settings.__dict__.clear()
    untyped.settings._wrapped = untyped.empty
    handler: Any = connections
    handler.__dict__.pop("settings", None)
    handler._settings = None
    del handler["default"]
    languages: Any = trans_real
    languages._default = None
    languages._translations.clear()


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


def own_fork(files: list[int]) -> socket.socket:
    """Return the connection to a fork of this process, which forks the programs that this one starts."""
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        own.close()
        # Who reads what this program writes waits until nobody has the file.
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (*files, 0, 1, 2):
            os.dup2(nothing, file)
        answer(other)
        os._exit(0)
    other.close()
    return own


def become(
    files: list[int], arguments: list[str], folder: str, environment: dict[str, str], in_new_session: bool
) -> None:
    """Run a program as if this process had been started for it, and end."""
    if in_new_session:
        os.setsid()
    if STARTING.search(" ".join(arguments)):
        fork_from({None: Prewarmed(None, own_fork(files))})
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    os.chdir(folder)
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
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
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
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        sys.argv = rest
        sys.path[0] = str(ROOT)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(ROOT)
        runpy.run_path(kind, run_name="__main__")
