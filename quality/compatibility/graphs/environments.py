"""One environment for each version of LangGraph."""

from pathlib import Path

from quality.compatibility.environments import HOME, installed

VERSIONS = ("0.2.76", "0.3.34", "0.4.10", "0.6.11", "1.0.5", "1.1.10")
# The savers, the driver of PostgreSQL, and LangGraph's own tests of savers.
SAVERS = (
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-mysql[pymysql]",
    "psycopg[binary]",
    "langgraph-checkpoint-conformance",
)
# The first version whose other packages are too new for the saver of DuckDB.
DUCKDB_BEFORE = (0, 5)
# The first version with which ``create_agent`` can be installed.
AGENTS_SINCE = (1, 0)
# Versions whose own bounds accept releases of other packages that they do not work with.
OLD_SAVERS = ("aiosqlite<0.22", "langgraph-checkpoint-postgres<2.0.22")
PARTS = {
    "0.2.76": OLD_SAVERS,
    "0.3.34": OLD_SAVERS,
    "0.4.10": ("langgraph-checkpoint<3", "langgraph-prebuilt<0.3", *OLD_SAVERS),
    "1.0.5": ("langgraph-prebuilt==1.0.5",),
}


def numbers_of(version: str) -> tuple[int, ...]:
    """The parts of a version, for a comparison."""
    return tuple(int(part) for part in version.split("."))


def packages_of(version: str) -> list[str]:
    """What is installed for a version."""
    agents = ("langchain",) if numbers_of(version) >= AGENTS_SINCE else ()
    duckdb = ("langgraph-checkpoint-duckdb",) if numbers_of(version) < DUCKDB_BEFORE else ()
    return [f"langgraph=={version}", *PARTS.get(version, ()), *SAVERS, *duckdb, *agents]


def python_of(version: str) -> Path:
    """Return the interpreter with this version. Create its environment if it is missing."""
    return installed(HOME / f"langgraph-{version}", packages_of(version))
