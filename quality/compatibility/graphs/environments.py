"""One environment for each version of LangGraph."""

import subprocess
import sys
from pathlib import Path

from quality.compatibility.environments import HOME, MAX_SECONDS, ROOT

VERSIONS = ("0.2.76", "0.6.11", "1.0.5")
# The savers, the driver of PostgreSQL, and LangGraph's own tests of savers.
SAVERS = (
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "psycopg[binary]",
    "langgraph-checkpoint-conformance",
)
# The first version with which ``create_agent`` can be installed.
AGENTS_SINCE = (1, 0)
# Versions whose own bounds accept releases of other packages that they do not work with.
PARTS = {
    "0.2.76": ("aiosqlite<0.22", "langgraph-checkpoint-postgres<2.0.22"),
    "1.0.5": ("langgraph-prebuilt==1.0.5",),
}


def numbers_of(version: str) -> tuple[int, ...]:
    """The parts of a version, for a comparison."""
    return tuple(int(part) for part in version.split("."))


def packages_of(version: str) -> list[str]:
    """What is installed for a version."""
    agents = ("langchain",) if numbers_of(version) >= AGENTS_SINCE else ()
    return [f"langgraph=={version}", *PARTS.get(version, ()), *SAVERS, *agents]


def python_of(version: str) -> Path:
    """Return the interpreter with this version. Create its environment if it is missing."""
    folder = HOME / f"langgraph-{version}"
    python, stamp = folder / "bin/python", folder / "installed.txt"
    packages = packages_of(version)
    if not stamp.exists() or stamp.read_text().split() != packages:
        print(f"Installing LangGraph {version} into {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        uv = str(Path(sys.executable).parent / "uv")
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(python)]
        subprocess.run([*install, *packages], check=True, timeout=MAX_SECONDS)
        stamp.write_text("\n".join(packages))
    return python
