"""Change notification, locks, the queue and job folders have one interface each, PRAGMAs have one file.

What differs on several machines is behind these interfaces, so nothing else may use what implements them.
"""

import ast
import re
from pathlib import Path

from tests.test_imports import imported_modules

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    path.relative_to(ROOT).as_posix(): path
    for folder in ("viewer", "checkpoint_site")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def importers_of(*modules: str) -> list[str]:
    """The files that import one of these modules, or something from it."""
    pattern = re.compile(rf"({'|'.join(map(re.escape, modules))})(\.|$)")
    return [name for name, path in FILES.items() if any(map(pattern.match, imported_modules(path)))]


def files_with(pattern: str) -> list[str]:
    return [name for name, path in FILES.items() if re.search(pattern, path.read_text())]


def test_only_the_file_lock_locks_files() -> None:
    assert files_with(r"\b(flock|lockf|LOCK_EX|LOCK_SH)\b") == ["viewer/locks/file_lock.py"]
    assert importers_of("fcntl") == [
        "viewer/locks/file_lock.py",
        # The size of a pipe, and the path of an open folder.
        "viewer/stores/reader/pool.py",
        "viewer/stores/sqlite/readonly.py",
    ]


def test_other_code_uses_the_interface_of_locks() -> None:
    assert importers_of("viewer.locks.file_lock") == [
        # The runner of a job, and a prewarmed process, inherit the descriptor of their lock.
        "viewer/jobs/local_storage.py",
        "viewer/jobs/prewarm/pool.py",
        "viewer/locks/__init__.py",
    ]


def test_other_code_uses_the_interface_of_change_notification() -> None:
    assert importers_of("viewer.changes.commits", "viewer.changes.inotify") == ["viewer/changes/__init__.py"]
    assert files_with(r"\bdata_version\b") == ["viewer/changes/commits.py", "viewer/sqlite_pragmas.py"]
    assert files_with(r"inotify_") == ["viewer/changes/inotify.py"]


def test_other_code_uses_the_interface_of_the_queue() -> None:
    assert importers_of("django_tasks", "django_tasks_db") == ["viewer/jobs/queue/tasks.py"]
    assert importers_of("viewer.jobs.queue.tasks") == ["viewer/jobs/queue/queue.py"]


def test_other_code_uses_the_interface_of_job_folders() -> None:
    assert importers_of("viewer.jobs.local_storage") == ["viewer/jobs/storage.py"]
    assert files_with(r'(DATA_DIR\)|folder) / "(jobs|preflight)"') == [
        # The data folder is prepared before there are rows of jobs.
        "viewer/data_folder/__init__.py",
        "viewer/jobs/local_storage.py",
        "viewer/models/jobs/job.py",
        "viewer/models/jobs/preflight.py",
        # Where a location's reader finds a scratch store.
        "viewer/models/runs.py",
    ]


def test_every_pragma_is_in_one_file() -> None:
    assert files_with(r"\bPRAGMA\b|\bpragma_\w+\(|\.pragma\(") == ["viewer/sqlite_pragmas.py"]


def test_the_shared_fixtures_use_no_private_function() -> None:
    tree = ast.parse((ROOT / "tests/conftest.py").read_text())
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls")
    }
    assert {name for name in names if re.match(r"_[a-z]", name)} == set()
