"""The files of jobs, as the server reads and writes them."""

from pathlib import Path

from viewer.host.jobs.files import JobStorage


def test_an_answer_is_written_and_deleted(tmp_path: Path) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    assert not storage.has_answer(1)
    storage.write_answer(1, "yes")
    assert storage.has_answer(1) and not storage.has_answer(2)
    storage.delete_answer(1)
    assert not storage.has_answer(1)


def test_the_runner_lock_is_held_by_one_runner(tmp_path: Path) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    assert storage.acquire_runner_lock() is not None
    assert storage.has_runner() and storage.acquire_runner_lock() is None


def test_clean_up_leaves_only_the_redacted_log(tmp_path: Path) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    storage.write_request({"kind": "run"})
    storage.write_stored_copy(b"{}")
    storage.write_answer(1, "yes")
    storage.write_stop({"whose": "day"})
    (storage.path / "log.txt").write_text("key\n")
    storage.clean_up(lambda text: text.replace("key", "[redacted]"))
    assert [path.name for path in storage.path.iterdir()] == ["log.txt"]
    assert (storage.path / "log.txt").read_text() == "[redacted]\n"
