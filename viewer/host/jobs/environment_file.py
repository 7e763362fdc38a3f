"""A project's environment file, as its runs get it: never one that a run has put in its place."""

import os
from pathlib import Path

from viewer.host.confined import closed_paths, confined, is_within, open_to_runs
from viewer.host.projects import read_values
from viewer.host_requests import JobRefused
from viewer.models import Project


def values_of(project: Project) -> tuple[dict[str, str], list[int]]:
    """The variables of the file, and what identifies it: its device and number; nothing if it is missing.

    Raises OSError, ValueError, and JobRefused if an isolated run has replaced it by a link to another one.
    """
    file = Path(project.environment_file)
    if not project.environment_file:
        return {}, []

    def read() -> tuple[dict[str, str], list[int]]:
        try:
            # ``read_values`` refuses a pipe.
            descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}, []
        status = os.fstat(descriptor)
        os.close(descriptor)
        return read_values(str(file)), [status.st_dev, status.st_ino]

    if open_to_runs(file) is None:
        # No isolated run can replace it.
        return read()
    refuse_other_file(project)
    # The link may be made now.
    return confined(file, read)


def refuse_other_file(project: Project) -> None:
    """Raise JobRefused if the environment file leads into what is closed to the project's runs.

    They may write the project's folder, and could replace the file by a link to the keys of another program.
    """
    if not project.environment_file:
        return
    real = os.path.realpath(project.environment_file)
    own = os.path.realpath(project.folder)
    is_in_project = is_within(os.path.normpath(project.environment_file), os.path.normpath(project.folder))
    leads_out = is_in_project and not is_within(real, own)
    if leads_out or any(is_within(real, path) for path in closed_paths(project, [], [own])):
        raise JobRefused("isolation.environment_file_leads_out", path=project.environment_file)
