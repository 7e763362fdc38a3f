"""A job records the commit and the digest of each source of its project, as they were when it started."""

import os
import shutil
from pathlib import Path

import pytest

from tests.jobs.code.repositories import committed, git
from tests.jobs.conftest import MakeJob, finished
from viewer.host.jobs import code
from viewer.host.jobs.checkout import blob_id
from viewer.host.jobs.code import ProjectCode, code_of
from viewer.host.jobs.retention import old_data, remove
from viewer.models import Job, Project, RecordedCode


def code_in(folder: Path, **values: str) -> ProjectCode:
    return code_of(Project(folder=str(folder), **values))


@pytest.fixture
def folder(db: None, tmp_path: Path) -> Path:
    found = tmp_path / "code"
    found.mkdir()
    return found


@pytest.mark.django_db(transaction=True)
def test_a_job_records_its_code(make_job: MakeJob, project: Project) -> None:
    commit = committed(Path(project.folder), main__py="first\n", agents__yaml="role: editor\n")
    job = finished(make_job())

    assert job.status == Job.Status.SUCCEEDED and job.code
    assert job.code.commit == commit and job.code.is_dirty is False and job.code.is_complete
    assert job.code.files == {"agents.yaml": blob_id(b"role: editor\n"), "main.py": blob_id(b"first\n")}


@pytest.mark.django_db(transaction=True)
def test_jobs_with_the_same_code_share_a_row(make_job: MakeJob, project: Project) -> None:
    (Path(project.folder) / "main.py").write_text("first\n")
    first = finished(make_job())
    Job.objects.update(branch="earlier")
    second = finished(make_job())
    assert first.code_id == second.code_id is not None
    Job.objects.all().delete()
    remove(old_data(None, None))
    assert not RecordedCode.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_job_starts_although_its_code_cannot_be_read(
    make_job: MakeJob, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "SECONDS", "no number")
    job = finished(make_job())
    assert job.status == Job.Status.SUCCEEDED and job.code is None


@pytest.mark.django_db(transaction=True)
def test_a_name_with_a_secret_is_left_out(make_job: MakeJob, project: Project, tmp_path: Path) -> None:
    secret = "q8Zx1vW9tR3mK7pL"
    (tmp_path / ".env").write_text(f"SERVICE_TOKEN={secret}\n")
    Project.objects.update(environment_file=str(tmp_path / ".env"))
    for name in (f"{secret}.py", "main.py"):
        (Path(project.folder) / name).write_text("first\n")
    job = finished(make_job())
    assert job.code and list(job.code.files) == ["main.py"]


def test_a_folder_without_a_repository_has_digests_alone(folder: Path) -> None:
    (folder / "main.py").write_text("first\n")
    assert code_in(folder) == ProjectCode({"main.py": blob_id(b"first\n")})


def test_a_repository_without_commits_has_digests_alone(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "main.py").write_text("first\n")
    assert code_in(folder) == ProjectCode({"main.py": blob_id(b"first\n")})


def test_a_folder_that_is_not_in_the_commit_has_digests_alone(folder: Path) -> None:
    committed(folder, main__py="first\n")
    (folder / "other").mkdir()
    (folder / "other" / "app.py").write_text("second\n")
    assert code_in(folder / "other") == ProjectCode({"app.py": blob_id(b"second\n")})


@pytest.mark.parametrize("change", ["edited", "removed", "new", "data edited", "replaced by a link"])
def test_changes_make_a_project_dirty(folder: Path, change: str) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "tools.py").write_text("tools\n")
    commit = committed(folder, main__py="first\n", prompt__md="Be brief.\n")
    assert code_in(folder).is_dirty is False
    match change:
        case "edited":
            (folder / "main.py").write_text("second\n")
        case "removed":
            (folder / "main.py").unlink()
        case "new":
            (folder / "new.py").write_text("")
        case "data edited":
            (folder / "prompt.md").write_text("Be long.\n")
        case _:
            (folder / "package").rename(folder.parent / "elsewhere")
            (folder / "package").symlink_to(folder.parent / "elsewhere")
    found = code_in(folder)
    assert found.is_dirty is True and found.commit == commit


def test_what_git_ignores_and_new_data_leave_a_project_clean(folder: Path) -> None:
    committed(folder, main__py="first\n", __gitignore="_version.py\n")
    (folder / "_version.py").write_text("version = 2\n")
    (folder / "result.json").write_text("{}")
    (folder / "report.md").write_text("Done.")
    assert code_in(folder).is_dirty is False


def test_a_change_elsewhere_in_the_repository_leaves_a_project_clean(folder: Path) -> None:
    (folder / "app").mkdir()
    (folder / "app" / "main.py").write_text("first\n")
    commit = committed(folder, other__py="first\n")
    (folder / "other.py").write_text("second\n")
    assert code_in(folder / "app") == ProjectCode({"main.py": blob_id(b"first\n")}, commit, is_dirty=False)


def test_a_source_folder_next_to_the_project_counts(folder: Path) -> None:
    for name in ("app", "shared"):
        (folder / name).mkdir()
        (folder / name / f"{name}_code.py").write_text("first\n")
    (folder / "app" / "langgraph.json").write_text('{"dependencies": ["../shared"], "graphs": {}}')
    committed(folder)
    assert {*code_in(folder / "app").files} == {"app_code.py", "langgraph.json", "../shared/shared_code.py"}
    assert code_in(folder / "app").is_dirty is False
    (folder / "shared" / "shared_code.py").write_text("second\n")
    assert code_in(folder / "app").is_dirty is True


def test_a_working_tree_a_clone_and_a_submodule_have_their_own_commit(folder: Path) -> None:
    commit = committed(folder / "first", main__py="first\n")
    git(folder / "first", "worktree", "add", "-q", str(folder / "tree"))
    later = committed(folder / "tree", main__py="second\n")
    assert (code_in(folder / "first").commit, code_in(folder / "tree").commit) == (commit, later)

    git(folder, "clone", "-q", "--depth=1", f"file://{folder / 'tree'}", str(folder / "shallow"))
    assert code_in(folder / "shallow").commit == later and code_in(folder / "shallow").is_dirty is False

    outer = folder / "outer"
    committed(outer, app__py="outer\n")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(folder / "first"), "inner")
    outer_commit = committed(outer)
    assert code_in(outer / "inner") == ProjectCode({"main.py": blob_id(b"first\n")}, commit, is_dirty=False)
    found = code_in(outer)
    # The commit does not say what is in the submodule.
    assert found.commit == outer_commit and found.is_dirty is None


def test_a_repository_of_sha256(folder: Path) -> None:
    commit = committed(folder, "--object-format=sha256", main__py="first\n")
    found = code_in(folder)
    assert len(commit) == 64 and found.commit == commit and found.is_dirty is False
    assert found.files == {"main.py": git(folder, "rev-parse", "HEAD:main.py")}


def test_environment_files_data_links_and_environments_are_not_read(folder: Path) -> None:
    (folder / "venv" / "lib").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").touch()
    (folder / "venv" / "lib" / "package.py").touch()
    (folder / "langgraph.json").write_text('{"env": {"KEY": "value"}}')
    (folder / ".env").write_text("KEY=value")
    (folder / "data.json").write_text("{}")
    (folder.parent / "outside.py").write_text("outside")
    (folder / "link.py").symlink_to(folder.parent / "outside.py")
    os.mkfifo(folder / "pipe.py")
    (folder / "large.py").write_bytes(b"#" * (code.MAX_FILE_BYTES + 1))
    (folder / "main.py").write_text("first\n")
    assert list(code_in(folder, environment_file=str(folder / "langgraph.json")).files) == ["main.py"]


def test_any_name_of_a_file_is_recorded(folder: Path) -> None:
    names = [b"line\nbreak.py", b"\"quoted' $(touch x).py", b"latin-\xe9.py", b"-option.py", b":(top).py"]
    for name in names:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("first\n")
    committed(folder)
    found = code_in(folder)
    assert found.is_dirty is False
    assert {*found.files} == {name.decode(errors="backslashreplace") for name in names}
    stored = RecordedCode.stored(found.files, found.commit, is_dirty=False, is_complete=True)
    stored.refresh_from_db()
    assert stored.files == found.files


def test_a_huge_project_is_read_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MAX_RECORDED_FILES", 3)
    commit = committed(folder, **{f"module{number}__py": "first\n" for number in range(5)})
    found = code_in(folder)
    assert len(found.files) == 3 and not found.is_complete
    assert (found.commit, found.is_dirty) == (commit, None)


def test_what_takes_too_long_is_not_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(folder, main__py="first\n")
    monkeypatch.setattr(code, "SECONDS", -1)
    assert code_in(folder).is_dirty is None


def test_a_machine_without_git_records_digests_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(folder, main__py="first\n")
    monkeypatch.setenv("PATH", str(folder))
    assert code_in(folder) == ProjectCode({"main.py": blob_id(b"first\n")})


def test_a_broken_repository_has_digests_alone(folder: Path) -> None:
    committed(folder, main__py="first\n")
    shutil.rmtree(folder / ".git" / "objects")
    assert code_in(folder) == ProjectCode({"main.py": blob_id(b"first\n")})


def test_git_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(folder, main__py="first\n")
    programs = folder.parent / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nsleep 600\nexit 1\n")
    (programs / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("viewer.host.jobs.checkout.SECONDS", 0.2)
    assert code_in(folder) == ProjectCode({"main.py": blob_id(b"first\n")})
