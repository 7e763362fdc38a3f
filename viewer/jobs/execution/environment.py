"""What a child finds in its environment: little of ours, the project's own file, and no telemetry."""

import os
from pathlib import Path

from viewer.engines import all_engines
from viewer.jobs.execution.protected_paths import guard_list, without_protected
from viewer.jobs.preflight.placeholders import placeholders_for
from viewer.models import Project
from viewer.projects.environment_file import read_values

# Has every Python that a job starts load the import guard (viewer/runners/forkline_guard).
GUARD_FOLDER = Path(__file__).resolve().parents[2] / "runners" / "forkline_guard" / "starting"
GUARD = "FORKLINE_GUARD"
# Says that this is a preflight check, and which environment file it may not read.
PREFLIGHT = "FORKLINE_PREFLIGHT"
# Every process of a job carries it, so that the whole tree is found again.
MARKER = "FORKLINE_JOB"

# Who it is, where it finds programs, its language, and how it reaches the network. No key of the server's.
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
    # Nothing new beside the project's code.
    "PYTHONDONTWRITEBYTECODE": "1",
    # What was printed is in the log even where the child is killed.
    "PYTHONUNBUFFERED": "1",
    "PYTHONIOENCODING": "utf-8:backslashreplace",
}


def file_values(project: Project) -> dict[str, str]:
    """What the project's environment file sets. Our own environment stays as it is."""
    return read_values(project.environment_file)


def inherited_variables(project: Project) -> dict[str, str]:
    """What a child of this project finds of ours."""
    found = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # The project's own programs come first, as in its activated environment.
    programs = str(Path(project.interpreter).parent)
    found["PATH"] = os.pathsep.join([programs, found.get("PATH", os.defpath)])
    return found


def runner_environment(folder: Path, project: Project, *, is_preflight: bool = False) -> dict[str, str]:
    """The whole environment of the child of this folder, whose name marks all its processes.

    A preflight check gets placeholders for the values of the environment file, and no password of a proxy.
    """
    values, ours = file_values(project), inherited_variables(project)
    if is_preflight:
        values = {**placeholders_for(values), PREFLIGHT: project.environment_file or "-"}
        ours = {name: value for name, value in ours.items() if not _has_password(name, value)}
    return {**_with_guard({**ours, **values}, project), **FIXED, MARKER: folder.name}


def prewarm_environment(project: Project) -> dict[str, str]:
    """What a process finds that waits for jobs of this project: nothing of the project's own file."""
    return {**_with_guard(inherited_variables(project), project), **FIXED}


def _engine_variables() -> dict[str, str]:
    """What the engines' runners need, such as no telemetry and no question at a terminal."""
    return {name: value for one in all_engines() for name, value in one.runner.environment.items()}


def _with_guard(variables: dict[str, str], project: Project) -> dict[str, str]:
    """The variables with the import guard, and without folders of code that lie in a location."""
    clean = without_protected(variables, project)
    path = [str(GUARD_FOLDER), *([clean["PYTHONPATH"]] if clean.get("PYTHONPATH") else [])]
    return {**clean, "PYTHONPATH": os.pathsep.join(path), GUARD: str(guard_list(project))}


def _has_password(name: str, value: str) -> bool:
    return "proxy" in name.lower() and "@" in value
