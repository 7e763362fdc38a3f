"""The version of the engine in the project's interpreter."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forkline_runner import project
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter


def report_start(
    reporter: Reporter, engine: str, oldest: str, *, label: str, needs: Sequence[str] = ()
) -> str:
    """Report the versions, and return that of the engine. ``needs`` are other packages that a run needs.

    Raises Refused if one of the packages is missing, or the engine is older than ``oldest``.
    """
    try:
        version, *_ = [importlib.metadata.version(package) for package in (engine, *needs)]
    except importlib.metadata.PackageNotFoundError as error:
        raise Refused(f"{engine}.not_installed", package=error.name, python=sys.executable) from error
    if project.is_older(version, oldest):
        raise Refused(f"{engine}.version_too_old", version=version, oldest=oldest, python=sys.executable)
    reporter.write(
        "started",
        pid=os.getpid(),
        engine=label,
        engine_version=version,
        python_version=platform.python_version(),
    )
    return version
