"""The environment of runners: a few variables of the server, the environment file, and no telemetry."""

import json
import os
from pathlib import Path

from viewer.engines import all_engines
from viewer.importing import server_variables
from viewer.jobs.execution.starting.protected_paths import guard_list, without_protected
from viewer.jobs.preflight.placeholders import placeholders_for
from viewer.models import Location, Project
from viewer.projects.environment_file import read_values

# On PYTHONPATH, it installs the import guard in every Python that a job starts.
GUARD_FOLDER = Path(__file__).resolve().parents[3] / "runners" / "forkline_guard" / "starting"
GUARD = "FORKLINE_GUARD"
# Set in a preflight check, to the environment file that it may not read.
PREFLIGHT = "FORKLINE_PREFLIGHT"
# The connection to the database of a job's location (viewer/runners/forkline_langgraph/postgresql).
STORE = "FORKLINE_STORE"
# Identifies every process of a job, so that the whole tree can be found.
MARKER = "FORKLINE_JOB"

# User, programs, language and network. No key of the server.
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *(
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
    ),
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ),
)

FIXED = {
    "OTEL_SDK_DISABLED": "true",
    # Write no bytecode next to the project's code.
    "PYTHONDONTWRITEBYTECODE": "1",
    # The log is complete even if the runner is killed.
    "PYTHONUNBUFFERED": "1",
    "PYTHONIOENCODING": "utf-8:backslashreplace",
}


def file_values(project: Project) -> dict[str, str]:
    """The variables of the project's environment file. The server's environment does not change."""
    return read_values(project.environment_file)


def inherited_variables(project: Project) -> dict[str, str]:
    """The server's variables that runners of this project inherit."""
    found = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # As in an activated virtual environment.
    programs = str(Path(project.interpreter).parent)
    found["PATH"] = os.pathsep.join([programs, found.get("PATH", os.defpath)])
    return found


def runner_environment(name: str, project: Project, *, is_preflight: bool = False) -> dict[str, str]:
    """The complete environment of a runner. ``name`` is the id of its job, which marks all its processes.

    A preflight check gets placeholders for the values of the environment file, and no proxy with a password.
    """
    values, ours = file_values(project), inherited_variables(project)
    if is_preflight:
        values = {**placeholders_for(values), PREFLIGHT: project.environment_file or "-"}
        ours = {name: value for name, value in ours.items() if not _has_password(name, value)}
    return {**_with_guard({**ours, **values}, project), **FIXED, **_engine_variables(), MARKER: name}


def store_variables(location: Location | None) -> dict[str, str]:
    """The variable that has the connection to a location's database, whose runner removes it; else none.

    It is in no file and no request: it may hold a password. Raises NotConfigured.
    """
    if location is None or location.is_local:
        return {}
    return {STORE: json.dumps(server_variables(location))}


def prewarm_environment(project: Project) -> dict[str, str]:
    """The environment of a prewarmed process, without the project's environment file."""
    return {**_with_guard(inherited_variables(project), project), **FIXED, **_engine_variables()}


def _engine_variables() -> dict[str, str]:
    """The variables that the engines' runners need, such as those that turn telemetry off."""
    return {name: value for one in all_engines() for name, value in one.runner.environment.items()}


def _with_guard(variables: dict[str, str], project: Project) -> dict[str, str]:
    """The variables with the import guard, and without code folders inside a location."""
    clean = without_protected(variables, project)
    path = [str(GUARD_FOLDER), *([clean["PYTHONPATH"]] if clean.get("PYTHONPATH") else [])]
    return {**clean, "PYTHONPATH": os.pathsep.join(path), GUARD: str(guard_list(project))}


def _has_password(name: str, value: str) -> bool:
    return "proxy" in name.lower() and "@" in value
