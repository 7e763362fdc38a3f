"""A commit is checked out completely, safely, and without running or changing anything of its repository."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.jobs.code.repositories import committed, git, state_of
from tests.jobs.code.test_hostile_repositories import folder as hostile_folder
from tests.jobs.code.test_hostile_repositories import mark_of
from viewer.host.jobs import checkout as subject
from viewer.host.jobs.checkout import Checkout, check_commit, check_out, remove_committed
from viewer.host_requests import JobRefused
from viewer.models import Project

pytestmark = pytest.mark.django_db

__all__ = ["hostile_folder"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "code"
    found.mkdir()
    return found


def checked_out(folder: Path, commit: str, **values: str) -> Checkout:
    path = folder.parent / "job" / "checkout"
    path.parent.mkdir(exist_ok=True)
    return check_out(Project(folder=values.get("project", str(folder))), commit, path)


def refusal(folder: Path, commit: str, **values: str) -> str:
    """Why a commit is refused. Nothing is left of it."""
    with pytest.raises(JobRefused) as refused:
        checked_out(folder, commit, **values)
    left = [path.name for path in (folder.parent / "job").iterdir()]
    assert left == [] or refused.value.message.code == "checkout.folder_missing"
    return refused.value.message.code


def tree(folder: Path, *entries: tuple[str, str, bytes]) -> str:
    """A commit whose tree has these entries: mode, name and content. No name is checked."""
    data = b""
    for mode, name, content in entries:
        written = folder.parent / "content"
        written.write_bytes(content)
        kind = {"40000": "tree", "160000": ""}.get(mode, "blob")
        digest = (
            "1" * 40
            if not kind
            else git(folder, "hash-object", "-t", kind, "-w", "--no-filters", "--literally", str(written))
        )
        data += f"{mode} {name}\0".encode() + bytes.fromhex(digest)
    made = folder.parent / "tree"
    made.write_bytes(data)
    top = git(folder, "hash-object", "-t", "tree", "-w", "--no-filters", "--literally", str(made))
    return git(folder, "commit-tree", top, "-m", "hostile")


def tree_data(folder: Path, *entries: tuple[str, str, bytes]) -> bytes:
    """The object of a tree with these entries, which is stored."""
    top = git(folder, "rev-parse", f"{tree(folder, *entries)}^{{tree}}")
    return subprocess.run(
        ["git", "-C", str(folder), "cat-file", "tree", top], check=True, capture_output=True
    ).stdout


def test_a_checkout_has_the_files_of_the_commit(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "tools.py").write_text("first\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("package/tools.py")
    first = committed(folder, main__py="first\n", __gitignore=".env\n")
    (folder / ".env").write_text("KEY=1\n")
    committed(folder, main__py="second\n", new__py="new\n")
    before = state_of(folder)

    found = checked_out(folder, first)
    names = {str(path.relative_to(found.path)) for path in found.path.rglob("*")}
    assert names == {".gitignore", "latest", "main.py", "package", "package/tools.py", "run.sh"}
    assert (found.path / "main.py").read_text() == (found.path / "latest").read_text() == "first\n"
    assert os.access(found.path / "run.sh", os.X_OK) and not os.access(found.path / "main.py", os.X_OK)
    assert all(stat.S_IMODE(one.lstat().st_mode) & 0o077 == 0 for one in found.path.rglob("*.py"))
    assert state_of(folder) == before
    assert found.of(folder / "package") == found.path / "package" and found.of("/etc") == Path("/etc")


def test_a_repository_with_sha_256_is_checked_out(folder: Path) -> None:
    commit = committed(folder, "--object-format=sha256", main__py="first\n")
    assert (checked_out(folder, commit).path / "main.py").read_text() == "first\n"


def test_nothing_that_a_repository_names_runs(hostile_folder: Path) -> None:
    attributes = "* filter=evil diff=evil text eol=crlf ident\nmain.py export-ignore\n"
    commit = tree(
        hostile_folder,
        ("100644", ".gitattributes", attributes.encode()),
        ("100644", "main.py", b"first\n"),
        ("100644", "more.py", b"$Id$\n"),
    )
    mark_of(hostile_folder).unlink(missing_ok=True)
    before = state_of(hostile_folder)

    found = checked_out(hostile_folder, commit)
    assert not mark_of(hostile_folder).exists() and state_of(hostile_folder) == before
    assert (found.path / "main.py").exists() and (found.path / "more.py").read_bytes() == b"$Id$\n"


def test_a_missing_object_is_not_fetched_and_nothing_is_left(hostile_folder: Path) -> None:
    commit = tree(hostile_folder, ("100644", "main.py", b"first\n"))
    mark_of(hostile_folder).unlink(missing_ok=True)
    name = git(hostile_folder, "rev-parse", f"{commit}:main.py")
    (hostile_folder / ".git" / "objects" / name[:2] / name[2:]).unlink()
    assert refusal(hostile_folder, commit) == "checkout.git_failed"
    assert not mark_of(hostile_folder).exists()


def test_an_object_that_is_not_what_its_id_says_is_refused(folder: Path) -> None:
    commit = committed(folder, main__py="first\n", other__py="other\n")
    objects = folder / ".git" / "objects"
    first, other = (git(folder, "rev-parse", f"{commit}:{name}.py") for name in ("main", "other"))
    replaced = objects / first[:2] / first[2:]
    replaced.chmod(0o600)
    shutil.copyfile(objects / other[:2] / other[2:], replaced)
    assert refusal(folder, commit) == "checkout.git_failed"


@pytest.mark.parametrize("commit", ["0" * 40, "", "HEAD", "main", "--help", "main^{tree}"])
def test_only_a_commit_of_the_repository_is_checked_out(folder: Path, commit: str) -> None:
    committed(folder, main__py="first\n")
    assert refusal(folder, commit) == "checkout.commit_missing"


def test_a_folder_without_a_repository_is_refused(folder: Path) -> None:
    assert refusal(folder, "0" * 40) == "checkout.commit_missing"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../outside", "package/../../outside", "chain", "..", "loop/../../.."]
)
def test_a_link_out_of_the_repository_is_refused(folder: Path, target: str) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "tools.py").write_text("")
    (folder / "chain").symlink_to("package/up")
    (folder / "package" / "up").symlink_to("../..")
    if target != "chain":
        (folder / "chain").unlink()
        (folder / "package" / "up").unlink()
    (folder / "link").symlink_to(target)
    assert refusal(folder, committed(folder)) == "checkout.link_outside"


def test_a_link_to_the_folder_of_an_unfinished_checkout_is_refused(folder: Path) -> None:
    (folder / "link").symlink_to("../checkout.new/main.py")
    assert refusal(folder, committed(folder, main__py="first\n")) == "checkout.link_outside"


def test_nothing_is_written_through_a_link(folder: Path) -> None:
    committed(folder, main__py="first\n")
    outside = folder.parent / "outside"
    outside.mkdir()
    inner = tree_data(folder, ("120000", "planted", b"x"), ("100644", "evil.py", b"x"))
    for entries in (
        [("120000", "a", os.fsencode(outside)), ("40000", "a", inner)],
        [("40000", "a", inner), ("120000", "a", os.fsencode(outside))],
        [("120000", "a", b"../../outside"), ("40000", "a", inner)],
    ):
        refusal(folder, tree(folder, *entries))
        assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", "."])
def test_a_name_that_leads_elsewhere_is_refused(folder: Path, name: str) -> None:
    committed(folder, main__py="first\n")
    inner = tree_data(folder, ("100644", "config", b"[core]\n\tfsmonitor = evil\n"))
    assert refusal(folder, tree(folder, ("40000", name, inner))) == "checkout.unsafe_name"
    assert refusal(folder, tree(folder, ("100644", name, b"evil"))) == "checkout.unsafe_name"


def test_a_name_with_a_slash_is_refused(folder: Path) -> None:
    committed(folder, main__py="first\n")
    assert refusal(folder, tree(folder, ("100644", "../evil.py", b"x"))) == "checkout.unsafe_name"
    assert refusal(folder, tree(folder, ("100644", "/tmp/evil.py", b"x"))) == "checkout.unsafe_name"


def test_a_submodule_is_refused(folder: Path) -> None:
    committed(folder, main__py="first\n")
    commit = tree(folder, ("100644", "main.py", b"first\n"), ("160000", "lib", b""))
    assert refusal(folder, commit) == "checkout.submodule"
    with pytest.raises(JobRefused):
        check_commit(Project(folder=str(folder)), commit)


def test_a_commit_without_the_projects_folder_is_refused(folder: Path) -> None:
    commit = committed(folder, main__py="first\n")
    (folder / "app").mkdir()
    assert refusal(folder, commit, project=str(folder / "app")) == "checkout.folder_missing"


def test_a_commit_that_is_too_large_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = committed(folder, main__py="first\n", other__py="other\n")
    for limit, code in (
        ("MAX_FILES", "checkout.too_many_files"),
        ("MAX_BYTES", "checkout.too_large"),
        ("MAX_FILE_BYTES", "checkout.git_failed"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(subject, limit, 1)
            assert refusal(folder, commit) == code


def test_what_a_killed_process_left_is_replaced(folder: Path) -> None:
    commit = committed(folder, main__py="first\n")
    left = folder.parent / "job" / "checkout.new"
    left.mkdir(parents=True)
    (left / "main.py").write_text("half")
    found = checked_out(folder, commit)
    assert (found.path / "main.py").read_text() == "first\n" and not left.exists()
    (found.path / "extra.py").write_text("from an earlier check")
    assert [one.name for one in checked_out(folder, commit).path.iterdir()] == ["main.py"]


def test_what_a_run_wrote_stays_when_the_rest_is_removed(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "tools.py").write_text("first\n")
    (folder / "link").symlink_to("package")
    found = checked_out(folder, committed(folder, main__py="first\n", data__json="{}\n"))
    (found.path / "report.md").write_text("Done.")
    (found.path / "data.json").write_text('{"runs": 1}\n')
    remove_committed(found.path)
    assert {path.name for path in found.path.rglob("*")} == {"report.md", "data.json"}
    (found.path / "report.md").unlink()
    (found.path / "data.json").unlink()
    remove_committed(found.path)
    assert not found.path.exists()


def test_links_that_a_run_made_stay_and_none_is_followed(folder: Path, tmp_path: Path) -> None:
    found = checked_out(folder, committed(folder, main__py="first\n"))
    (found.path / "latest").symlink_to("run-3")
    remove_committed(found.path)
    assert [path.name for path in found.path.iterdir()] == ["latest"]

    store = tmp_path / "store"
    (store / "empty").mkdir(parents=True)
    (store / "one.json").write_text("{}")
    os.utime(store / "one.json", (subject.WRITTEN_AT, subject.WRITTEN_AT))
    shutil.rmtree(found.path)
    found.path.symlink_to(store)
    remove_committed(found.path)
    assert {path.name for path in store.iterdir()} == {"empty", "one.json"}
