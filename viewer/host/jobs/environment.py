"""What a runner starts with: its program, environment and protected paths, if a project can run."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from viewer.engines import DEFAULT, all_engines, engine_name, engine_named
from viewer.host.confined import confined
from viewer.host.jobs import spool
from viewer.host.jobs.checkout import Checkout
from viewer.host.jobs.files import write_private_file
from viewer.host.jobs.kept_keys import values_of, without_keys
from viewer.host.locations.sources import server_of
from viewer.host.permitted import refuse_project
from viewer.host.projects import INHERITED
from viewer.host_requests import HostRefusal, JobRefused
from viewer.messages.message import UserMessage, plain_text
from viewer.models import Location, Project
from viewer.redaction.names import secrecy_of
from viewer.redaction.values import is_clean
from viewer.validation import content_at

# Placeholders for the values of an environment file, because a preflight check never gets a real key.


PLACEHOLDER = "placeholder-of-a-preflight-check"
# No name below this domain can ever be resolved (RFC 2606).
HOST = "placeholder.invalid"
# Needed to start Python. They hold no key.
KEPT = re.compile(r"PYTHON\w*|PATH|LD_LIBRARY_PATH|HOME|TZ|LANG|LC_\w+")
# Short values that projects parse while they are imported: flags, small numbers, dates, versions.
PLAIN = re.compile(
    r"(?i:true|false|yes|no|on|off|none|null|debug|info|warning|error|critical)"
    r"|-?\d{1,5}(\.\d{1,5})?|\d{4}-\d{2}-\d{2}(-preview)?|v\d{1,3}(\.\d{1,3}){0,2}"
)
# Names of models, which the engine needs to construct a client.
CHOICE_NAME = re.compile(r"(?:\w*_)?(?:MODEL|MODEL_NAME|DEPLOYMENT|PROVIDER|REGION)(?:_NAME)?", re.IGNORECASE)
CHOICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
PREFIX = re.compile(r"[A-Za-z]{2,4}[-_]")


def placeholder_for(name: str, value: str) -> str:
    """The value if it cannot be a key, an address or a password, else a placeholder.

    Clients can be constructed from placeholders, without access to anything.
    """
    if not value or KEPT.fullmatch(name):
        return value
    if address := ADDRESS.match(value):
        return f"{address[1]}://{HOST}"
    if secrecy_of(name):
        # Some clients require the prefix of a vendor's keys, such as ``sk-``.
        found = PREFIX.match(value)
        return (found[0] if found else "") + PLACEHOLDER
    if PLAIN.fullmatch(value):
        return value
    if CHOICE_NAME.fullmatch(name) and CHOICE.fullmatch(value) and is_clean(value):
        return value
    if value[0] in "[{":
        return _empty_json(value)
    # A key may look like a path, but no such file exists.
    return value if value.startswith(("/", "./", "../", "~/")) and _exists(value) else PLACEHOLDER


def _empty_json(value: str) -> str:
    try:
        return "[]" if isinstance(json.loads(value), list) else "{}"
    except ValueError:
        return PLACEHOLDER


def _exists(value: str) -> bool:
    try:
        return Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


# The runner of an engine: its program, and the module that the program imports.
#
# The settings JOB_RUNNERS and RUNNER_MODULES name others, by engine.


def runner_program(engine: str) -> Path:
    """The program that runs the jobs of this engine."""
    return Path(settings.JOB_RUNNERS.get(engine) or engine_named(engine).runner.program)


def runner_module(engine: str) -> str:
    """The module that the program of this engine imports, or a prewarmed process in advance."""
    return str(settings.RUNNER_MODULES.get(engine) or engine_named(engine).runner.module)


def engine_of_project(project: Project | None) -> str:
    """The name of the engine of the project's locations, or of the default engine if it has no location."""
    location = project.locations.first() if project is not None and project.pk else None
    return engine_name(location) if location else DEFAULT


# Protected paths, from which no run imports code: every location and the data folder.


FILES = (Location.StoreKind.SQLITE, Location.StoreKind.STATES)
MAX_PTH_BYTES = 64 * 1024
# Variables that hold several code folders, or one.
CODE_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
SINGLE_VARIABLES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP")


def protected_paths(project: Project, checkout: Checkout | None = None) -> list[str]:
    """The paths from which this project's runs may not import, shortest first.

    For a SQLite store these are the file and its folder, unless that folder contains the project's code. What
    a commit has at a protected path is protected in its checkout as well.
    """
    code = {path for folder in code_folders(project) for path in _both(folder)}
    around = {above for folder in code for above in (folder, *folder.parents)}
    found = {*_both(Path(settings.DATA_DIR))}
    of_files = Location.objects.runnable_here().exclude(store_kind__in=Location.WITHOUT_PATH)
    for path, store_kind in of_files.values_list("path", "store_kind"):
        for form in _both(Path(path)):
            found.add(form)
            if store_kind in FILES and form.parent not in around:
                found.add(form.parent)
    if checkout:
        # But not the checkout itself, which has the place of the whole working tree.
        found |= {checkout.of(path) for path in found} - {checkout.path}
    return sorted(map(str, found), key=lambda path: (len(path), path))


def code_folders(project: Project) -> list[Path]:
    """The folders from which the project's code is imported: its own, ``src``, its entry points' packages."""
    folder = Path(project.folder)
    roots = [root for root in (folder, folder / "src") if root.is_dir()]
    found = [*roots, *added_folders(folder)]
    for entry_point in project.entry_points:
        # A declared entry point is a file in one of the roots.
        packages = entry_point.partition(":")[0].split(".")[:-1] if ":" in entry_point else []
        for root in roots:
            for end in range(1, len(packages) + 1):
                package = root.joinpath(*packages[:end])
                found += [package] if package.is_dir() else []
    return found


def added_folders(folder: Path) -> list[Path]:
    """The folders that a project's configuration adds to the import path."""
    engines = list(all_engines())
    return confined(folder, lambda: [one for engine in engines for one in engine.source_folders(folder)])


def conflict_of(project: Project) -> UserMessage | None:
    """Why this project cannot run: its code, Python or environment file is in a protected path. Else None."""
    protected = [Path(path) for path in protected_paths(project)]
    for folder in code_folders(project):
        if cover := covering(folder, protected):
            return UserMessage(
                "job.project_in_protected_folder", {"folder": str(folder), "cover": str(cover)}
            )
    interpreter = Path(project.interpreter)
    if cover := covering(interpreter, protected) or covering(interpreter.parent, protected):
        return UserMessage("job.interpreter_in_protected_folder", {"cover": str(cover)})
    # Only Forkline writes to the data folder.
    locations = [path for path in protected if path not in _both(Path(settings.DATA_DIR))]
    if project.environment_file and (cover := covering(Path(project.environment_file), locations)):
        return UserMessage("job.environment_file_in_protected_folder", {"cover": str(cover)})
    for file, entry in path_entries(interpreter):
        if cover := covering(entry, protected):
            return UserMessage(
                "job.python_path_in_protected_folder",
                {"entry": str(entry), "file": str(file), "cover": str(cover)},
            )
    return None


def covering(path: Path, protected: list[Path]) -> Path | None:
    """The protected path that equals or contains this one, with or without links followed."""
    for form in _both(path):
        for one in protected:
            if form.is_relative_to(one):
                return one
    return None


def without_protected(variables: dict[str, str], project: Project) -> dict[str, str]:
    """The variables without code folders inside a protected path, which Python would read at its start."""
    protected = [Path(path) for path in protected_paths(project)]

    def is_allowed(entry: str) -> bool:
        # An empty entry means the working directory, which is the project's folder.
        return covering(Path(project.folder) / entry, protected) is None

    clean = dict(variables)
    for name in set(CODE_VARIABLES) & variables.keys():
        clean[name] = os.pathsep.join(filter(is_allowed, variables[name].split(os.pathsep)))
    for name in set(SINGLE_VARIABLES) & variables.keys():
        if not is_allowed(variables[name]):
            del clean[name]
    return clean


def guard_list(project: Project, checkout: Checkout | None = None) -> Path:
    """Write the project's protected paths to a file that the import guard reads. Returns the file.

    With a checkout, the file is next to it, and names the working tree from which nothing is imported.
    """
    if checkout:
        replaced = {"working_tree": str(checkout.top), "checkout": str(checkout.path)}
        path = checkout.path.with_name(spool.GUARD)
        path.write_text(json.dumps({"protected": protected_paths(project, checkout), **replaced}))
        return path
    folder = Path(settings.DATA_DIR) / "guard"
    folder.mkdir(exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    path, text = folder / f"{project.pk}.json", json.dumps(protected_paths(project))
    if not path.exists() or path.read_text() != text:
        write_private_file(path, text.encode())
    return path


def _both(path: Path) -> set[Path]:
    """The path without ``..``, and the path with all links followed."""
    return {Path(os.path.normpath(path)), Path(os.path.realpath(path))}


def path_entries(interpreter: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of a ``.pth`` file in the interpreter's environment and a folder that it adds to sys.path."""
    for folder in interpreter.parent.parent.glob("lib/python3*/site-packages"):
        for file in sorted(folder.glob("*.pth")):
            content = content_at(file, MAX_PTH_BYTES, follows_links=True) or b""
            for line in content.decode(errors="replace").splitlines():
                # Python leaves out lines that are no paths, such as those of a file in UTF-16.
                if line.strip() and "\0" not in line and not line.startswith(("#", "import ", "import\t")):
                    yield file, folder / line.strip()


# The environment of runners: a few variables of the server, the environment file, and no telemetry.


# On PYTHONPATH, it installs the import guard in every Python that a job starts.
GUARD_FOLDER = Path(__file__).resolve().parents[2] / "runners" / "forkline_guard" / "starting"
GUARD = "FORKLINE_GUARD"
# Set in a preflight check, to the environment file that it may not read.
PREFLIGHT = "FORKLINE_PREFLIGHT"
# The connection to the database of a job's location (viewer/runners/forkline_langgraph/checkpoints.py).
STORE_VARIABLE = "FORKLINE_STORE"
# Identifies every process of a job, so that the whole tree can be found.
MARKER = "FORKLINE_JOB"

FIXED = {
    "OTEL_SDK_DISABLED": "true",
    # Write no bytecode next to the project's code.
    "PYTHONDONTWRITEBYTECODE": "1",
    # The log is complete even if the runner is killed.
    "PYTHONUNBUFFERED": "1",
    "PYTHONIOENCODING": "utf-8:backslashreplace",
}


def inherited_variables(project: Project) -> dict[str, str]:
    """The server's variables that runners of this project inherit."""
    found = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # As in an activated virtual environment.
    programs = str(Path(project.interpreter).parent)
    found["PATH"] = os.pathsep.join([programs, found.get("PATH", os.defpath)])
    return found


def runner_environment(
    name: str, project: Project, checkout: Checkout | None = None, *, is_preflight: bool = False
) -> dict[str, str]:
    """The complete environment of a runner. ``name`` is the id of its job, which marks all its processes.

    It has no key that stays with Forkline. A preflight check gets placeholders for the values of the
    environment file, and no proxy with a password.
    """
    values, ours = without_keys(values_of(project)[0], project), inherited_variables(project)
    if is_preflight:
        file = project.environment_file or "-"
        # A commit may have an environment file as well.
        files = [file, str(checkout.of(file))] if checkout else [file]
        values = {name: placeholder_for(name, value) for name, value in values.items()}
        values[PREFLIGHT] = os.pathsep.join(files)
        ours = {name: value for name, value in ours.items() if not is_proxy_with_password(name, value)}
    return {
        **_with_guard({**ours, **values}, project, checkout),
        **FIXED,
        **_engine_variables(),
        MARKER: name,
    }


def store_variables(location: Location | None) -> dict[str, str]:
    """The variable that has the connection to a location's database, whose runner removes it; else none.

    It is in no file and no request: it may hold a password. Raises NotConfigured.
    """
    if location is None or location.store_kind != Location.StoreKind.POSTGRESQL:
        return {}
    server = server_of(location)
    variables = {"conninfo": server.conninfo, "environment": dict(server.environment)}
    return {STORE_VARIABLE: json.dumps(variables)}


def prewarm_environment(project: Project) -> dict[str, str]:
    """The environment of a prewarmed process, without the project's environment file."""
    return {**_with_guard(inherited_variables(project), project), **FIXED, **_engine_variables()}


def _engine_variables() -> dict[str, str]:
    """The variables that the engines' runners need, such as those that turn telemetry off."""
    return {name: value for one in all_engines() for name, value in one.runner.environment.items()}


def _with_guard(
    variables: dict[str, str], project: Project, checkout: Checkout | None = None
) -> dict[str, str]:
    """The variables with the import guard, and without code folders inside a location."""
    clean = without_protected(variables, project)
    path = [str(GUARD_FOLDER), *([clean["PYTHONPATH"]] if clean.get("PYTHONPATH") else [])]
    return {**clean, "PYTHONPATH": os.pathsep.join(path), GUARD: str(guard_list(project, checkout))}


def is_proxy_with_password(name: str, value: str) -> bool:
    """Whether a variable is the address of a network's proxy that holds a password."""
    return "proxy" in name.lower() and "@" in value


# Whether a project can run at all.


def start_error(error: HostRefusal | OSError) -> UserMessage:
    """Why a runner could not be started: the refusal's message, or the system's error."""
    return error.message if isinstance(error, HostRefusal) else plain_text(error)


def runnable(project: Project | None) -> Project:
    """The project, checked to be able to run. Raises JobRefused."""
    if project is None:
        raise JobRefused("job.project_missing")
    if not project.is_confirmed:
        raise JobRefused("job.project_not_confirmed", name=project.name)
    refuse_project(project)
    if not Path(project.folder).is_dir():
        raise JobRefused("job.project_folder_missing", path=project.folder)
    interpreter = Path(project.interpreter)
    if not (interpreter.is_absolute() and interpreter.is_file() and os.access(interpreter, os.X_OK)):
        raise JobRefused("job.interpreter_missing", path=project.interpreter)
    if project.environment_file and not Path(project.environment_file).is_file():
        raise JobRefused("job.environment_file_missing", path=project.environment_file)
    try:
        values_of(project)
    except (OSError, ValueError):
        # The error itself would quote the file.
        raise JobRefused("job.environment_file_not_text", path=project.environment_file) from None
    if conflict := conflict_of(project):
        raise JobRefused(conflict)
    return project
