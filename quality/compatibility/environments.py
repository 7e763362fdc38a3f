"""Creates one environment for each version of the engine."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.engine_runs.model import model_server
from tests.engine_runs.prewarmed import WarmPython, warm_python
from tests.engine_runs.runs import environment

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".matrix"
VERSIONS = ("1.14.2", "1.14.3", "1.14.4", "1.14.7", "1.15.0", "1.15.5", "1.15.15", "1.15.20")
# For interpreters whose SQLite is too old for the engine's stores.
BESIDE = "pysqlite3>=0.6.1,<0.7"
MAX_SECONDS = 1800


def newest(package: str = "crewai") -> str:
    """Return the newest version on the registry. Raise CalledProcessError if it does not respond."""
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--disable-pip-version-check"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    found = re.match(rf"{package} \((\S+)\)", said)
    assert found, said[:200]
    return found[1]


def python_of(version: str) -> Path:
    """Return the interpreter with this version. Create its environment if it is missing.

    Raise CalledProcessError if the installation fails.
    """
    return installed(HOME / version, [f"crewai=={version}", BESIDE])


def installed(folder: Path, packages: Sequence[str]) -> Path:
    """Return the interpreter of an environment with these packages. Create it if it is missing.

    Raise CalledProcessError if the installation fails.
    """
    python, stamp = folder / "bin/python", folder / "installed.txt"
    if not stamp.exists() or stamp.read_text().split() != list(packages):
        print(f"Installing {packages[0]} into {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        uv = str(Path(sys.executable).parent / "uv")
        # Runs do not write bytecode. Without it, each would spend seconds compiling the engine.
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(python)]
        subprocess.run([*install, *packages], check=True, timeout=MAX_SECONDS)
        stamp.write_text("\n".join(packages))
    return python


@contextmanager
def interpreter(python: Path) -> Iterator[Path | WarmPython]:
    """Return the interpreter or, with WARM set, forks of one process that has imported CrewAI."""
    if "WARM" not in os.environ:
        yield python
        return
    with tempfile.TemporaryDirectory(prefix="forkline-matrix-") as name, model_server() as model:
        folder = Path(name)
        with warm_python(python, environment(model, folder), folder) as warm:
            yield warm
