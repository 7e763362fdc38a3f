"""Job files are reached through the storage interface only."""

import ast
from pathlib import Path

from viewer.host.jobs.files import JobStorage, LocalJobStorage

VIEWER = Path(__file__).resolve().parents[2] / "viewer"
# The names of the files in a job's folder.
FILE_NAMES = {"REQUEST", "EVENTS", "LOG", "LOCK", "STORED", "SCRATCH", "STOP", "ANSWER", "answer_name"}


def imported_file_names(path: Path) -> set[str]:
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "viewer.host.jobs.spool"
        for alias in node.names
    } & FILE_NAMES


def test_only_the_local_storage_names_the_files_of_a_job() -> None:
    importers = [path for path in sorted(VIEWER.rglob("*.py")) if imported_file_names(path)]
    assert [path.relative_to(VIEWER).as_posix() for path in importers] == ["jobs/local_storage.py"]


def test_an_answer_is_written_and_deleted(tmp_path: Path) -> None:
    storage: JobStorage = LocalJobStorage(tmp_path / "jobs" / "one")
    storage.create()
    assert not storage.has_answer(1)
    storage.write_answer(1, "yes")
    assert storage.has_answer(1) and not storage.has_answer(2)
    storage.delete_answer(1)
    assert not storage.has_answer(1)


def test_the_runner_lock_is_held_by_one_runner(tmp_path: Path) -> None:
    storage = LocalJobStorage(tmp_path / "jobs" / "one")
    storage.create()
    assert storage.acquire_runner_lock() is not None
    assert storage.has_runner() and storage.acquire_runner_lock() is None


def test_clean_up_leaves_only_the_redacted_log(tmp_path: Path) -> None:
    storage = LocalJobStorage(tmp_path / "jobs" / "one")
    storage.create()
    storage.write_request({"kind": "run"})
    storage.write_stored_copy(b"{}")
    storage.write_answer(1, "yes")
    storage.write_stop({"whose": "day"})
    (storage.path / "log.txt").write_text("key\n")
    storage.clean_up(lambda text: text.replace("key", "[redacted]"))
    assert [path.name for path in storage.path.iterdir()] == ["log.txt"]
    assert (storage.path / "log.txt").read_text() == "[redacted]\n"
