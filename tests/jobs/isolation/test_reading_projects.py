"""What a run in a sandbox leaves in its project's folder does not lead Forkline to what no run may open."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone
from dotenv import dotenv_values

from tests.jobs.code.repositories import committed, git
from tests.jobs.isolation.conftest import isolate
from viewer.host.answers import answer
from viewer.host.confined import confined, open_to_runs
from viewer.host.jobs import kept_keys
from viewer.host.jobs.checkout import check_out, has_commit
from viewer.host.jobs.code import changes_since, code_of, difference
from viewer.host.jobs.environment import path_entries
from viewer.host.jobs.kept_keys import values_of
from viewer.host_requests import (
    FindEntryPoints,
    JobRefused,
    ListEntryPointKinds,
    ListInputNames,
    ListNamedEntryPoints,
    ProposeProject,
    ReadInterpreter,
    ReadSource,
)
from viewer.models import Project, RecordedCode

pytestmark = pytest.mark.django_db
SECRET = """
class State(BaseModel):
    key: str = "sk-of-the-user"


class Secret(Flow[State]):
    pass
"""


@pytest.fixture(params=["landlock", "bubblewrap"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """Return an isolated project with a flow, in a repository of its own."""
    folder = tmp_path / "project"
    committed(folder, main__py="class Own(Flow):\n    pass\n", settings__yaml="a: 1\n")
    found = Project.objects.create(
        folder=str(folder), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    isolate(found, launcher=request.param)
    return found


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return another repository of the user, of which no project knows."""
    folder = tmp_path / "private"
    committed(folder, main__py=SECRET, keys__yaml="key: sk-of-the-user\n")
    return folder


def by_a_file(own: Path, private: Path) -> None:
    shutil.rmtree(own / ".git")
    (own / ".git").write_text(f"gitdir: {private}/.git\n")


def by_a_link(own: Path, private: Path) -> None:
    shutil.rmtree(own / ".git")
    (own / ".git").symlink_to(private / ".git")


def by_a_common_folder(own: Path, private: Path) -> None:
    (own / ".git" / "commondir").write_text(f"{private}/.git\n")


def by_links_within(own: Path, private: Path) -> None:
    for name in ("objects", "refs"):
        shutil.rmtree(own / ".git" / name)
        (own / ".git" / name).symlink_to(private / ".git" / name)


def by_alternates(own: Path, private: Path) -> None:
    alternates = own / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{private}/.git/objects\n")
    (own / ".git" / "refs" / "heads" / "main").unlink()
    (own / ".git" / "refs" / "heads" / "main").symlink_to(private / ".git" / "refs" / "heads" / "main")


def by_another_working_tree(own: Path, private: Path) -> None:
    by_links_within(own, private)
    git(own, "config", "core.worktree", str(own.parent))


WAYS = [
    by_a_file,
    by_a_link,
    by_a_common_folder,
    by_links_within,
    by_alternates,
    by_another_working_tree,
]


@pytest.mark.parametrize("way", WAYS)
def test_no_other_repository_is_read(
    project: Project, private: Path, tmp_path: Path, way: Callable[[Path, Path], None]
) -> None:
    own, commit = Path(project.folder), git(private, "rev-parse", "HEAD")
    digest = git(private, "rev-parse", "HEAD:main.py")
    way(own, private)
    assert code_of(project).commit != commit
    assert not has_commit(own, commit)
    with pytest.raises(JobRefused):
        check_out(project, commit, tmp_path / "checkout")
    forged = RecordedCode(files={"main.py": digest}, commit=commit)
    assert difference(forged, project, "main.py").before is None
    asked = ReadSource("crewai", project.folder, "main:Secret", "flow", commit)
    assert answer(asked) is None
    # Without isolation, a run could read all this anyway, and linked working trees are usual.
    Project.objects.update(isolation={})
    if way in (by_a_file, by_a_link, by_links_within, by_alternates):
        assert has_commit(own, commit)


def test_an_own_repository_is_read_as_ever(project: Project, tmp_path: Path) -> None:
    own = Path(project.folder)
    commit = git(own, "rev-parse", "HEAD")
    found = code_of(project)
    assert (found.commit, found.is_dirty) == (commit, False)
    (own / "main.py").write_text("class Own(Flow):\n    changed = True\n")
    assert code_of(project).is_dirty is True
    recorded = RecordedCode(files=dict(found.files), commit=commit)
    assert [one.name for one in changes_since(recorded, project)] == ["main.py"]
    shown = difference(recorded, project, "main.py")
    assert "pass" in str(shown.before) and "changed" in str(shown.after)
    checkout = check_out(project, commit, tmp_path / "checkout")
    assert code_of(project, checkout).files == found.files


def test_a_repository_around_the_project_is_read(project: Project) -> None:
    own = Path(project.folder)
    shutil.rmtree(own / ".git")
    commit = committed(own.parent, README__md="all")
    assert code_of(project).commit == commit


def test_no_program_of_a_repository_is_executed(project: Project) -> None:
    own = Path(project.folder)
    (own / "program").write_text(f"#!/bin/sh\ntouch {own}/mark\n")
    (own / "program").chmod(0o700)

    def run() -> int:
        return os.spawnv(os.P_WAIT, str(own / "program"), ["program"])

    assert confined(own, run) != 0
    assert not (own / "mark").exists()


def test_nothing_can_be_written_or_connected_to(project: Project) -> None:
    own = Path(project.folder)
    attempts: list[Callable[[], object]] = [
        lambda: (own / "new").write_text("x"),
        lambda: (own.parent / "new").write_text("x"),
        lambda: os.truncate(own / "main.py", 0),
        lambda: list(own.parent.iterdir()),
        lambda: __import__("socket").socket(),
    ]
    for attempt in attempts:
        with pytest.raises(PermissionError):
            confined(own, attempt)
    assert not (own / "new").exists()
    # This thread is as it was.
    (own / "new").write_text("x")
    assert not [one for one in threading.enumerate() if one.name.startswith("confined")]


def test_no_sources_of_folders_that_the_configuration_names_are_read(project: Project, private: Path) -> None:
    own = Path(project.folder)
    given = {"dependencies": [str(private), "."], "graphs": {"a": "./main.py:graph"}}
    (own / "langgraph.json").write_text(json.dumps(given))
    assert not [name for name in code_of(project).files if "private" in name]
    name = os.path.relpath(private / "keys.yaml", own)
    assert difference(RecordedCode(files={name: ""}), project, name).after is None
    assert answer(ListInputNames("langgraph", project.folder, "keys:build", "graph")) == []
    Project.objects.update(isolation={})
    assert name in code_of(project).files


@pytest.mark.parametrize("launcher", ["process", "landlock"])
def test_no_source_is_read_through_links_out_of_the_folder(
    project: Project, private: Path, launcher: str
) -> None:
    own = Path(project.folder)
    isolate(project, launcher=launcher)
    (own / "linked").symlink_to(private)
    (own / "langgraph.json").symlink_to(private / "langgraph.json")
    (private / "langgraph.json").write_text('{"graphs": {"secret": "./main.py:graph"}}')
    (own / "crew.py").write_text("from linked.main import State\n\n\nclass Own(Flow[State]):\n    pass\n")
    names = answer(ListInputNames("crewai", project.folder, "linked.main:Secret", "flow"))
    names += answer(ListInputNames("crewai", project.folder, "crew:Own", "flow"))
    graphs = answer(ListNamedEntryPoints("langgraph", project.folder))
    kinds = answer(ListEntryPointKinds("crewai", project.folder, ["linked.main:Secret"]))
    # Packages that projects share by links are read if their runs can read them as well.
    assert bool(names) is bool(graphs) is bool(kinds["linked.main:Secret"]) is (launcher == "process")
    assert [one.name for one in answer(FindEntryPoints("crewai", project.folder))]


def test_what_runs_may_read_is_read(project: Project, private: Path) -> None:
    own = Path(project.folder)
    isolate(project, launcher="landlock", read=[str(private)])
    (own / "linked").symlink_to(private)
    names = answer(ListInputNames("crewai", project.folder, "linked.main:Secret", "flow"))
    assert [one.name for one in names] == ["key"]


def test_a_project_within_another_one_is_closed_to_its_runs(project: Project, tmp_path: Path) -> None:
    inner = Path(project.folder) / "inner"
    inner.mkdir()
    Project.objects.create(folder=str(inner), interpreter=sys.executable)
    assert open_to_runs(inner) is None
    found = open_to_runs(Path(project.folder)) or []
    assert not [path for path in found if inner.is_relative_to(path)]
    assert str(Path(project.folder) / "main.py") in found
    assert open_to_runs(tmp_path) is None


def test_pipes_make_nobody_wait(project: Project) -> None:
    own = Path(project.folder)
    packages = own / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "crewai-1.0.dist-info").mkdir()
    for path in (
        *(own / name for name in ("pyproject.toml", "langgraph.json", "crew.jsonc", "a.yaml", "pipe.py")),
        *(own / ".venv" / "pyvenv.cfg", packages / "x.pth"),
    ):
        os.mkfifo(path)
    project.interpreter = str(own / ".venv" / "bin" / "python")
    for engine in ("crewai", "langgraph"):
        answer(FindEntryPoints(engine, project.folder))
        answer(ListInputNames(engine, project.folder, "pipe:Own", "flow"))
        answer(ProposeProject(str(own / "checkpoints"), engine))
        answer(ReadInterpreter(project.interpreter, engine))
    assert code_of(project).commit
    assert list(path_entries(Path(project.interpreter))) == []


@pytest.mark.parametrize("is_late", [False, True])
def test_no_other_environment_file_is_read(
    project: Project, private: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    own = Path(project.folder) / ".env"
    (private / ".env").write_text("KEY=sk-of-the-user")
    own.write_text("KEY=own")
    project.environment_file = str(own)
    project.save()
    found, identity = values_of(project)
    assert found == {"KEY": "own"} and identity[1] == own.stat().st_ino

    def replace(*_given: object) -> None:
        own.unlink(missing_ok=True)
        own.symlink_to(private / ".env")

    if is_late:
        # A run makes the link after it was looked for.
        monkeypatch.setattr(kept_keys, "refuse_other_file", replace)
    else:
        replace()
    with pytest.raises((JobRefused, OSError)):
        values_of(project)


def test_an_environment_file_elsewhere_is_read(project: Project, private: Path) -> None:
    (private / ".env").write_text("KEY=own")
    project.environment_file = str(private / ".env")
    project.save()
    assert values_of(project)[0] == {"KEY": "own"}


def test_an_environment_file_that_runs_may_write_shows_no_variable_of_the_server(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://forkline:of-the-server@db/forkline")
    monkeypatch.setenv("LANG", "C.UTF-8")
    lines = [
        "LEAK=a${DATABASE_URL}",
        "LEAK2=${DATABASE_URL:-none}",
        "LANGUAGE=${LANG}",
        "KEY=own",
        "B=${KEY}2",
    ]
    text = "\n".join([*lines, "PLAIN='${KEY}'", "EMPTY", "C=${B:-x}"])
    for file in (Path(project.folder) / ".env", tmp_path / "of-a-person.env"):
        file.write_text(text)
        project.environment_file = str(file)
        project.save()
        server = "" if file.name == ".env" else "postgres://forkline:of-the-server@db/forkline"
        assert values_of(project)[0] == {
            **{"LEAK": f"a{server}", "LEAK2": server or "none", "LANGUAGE": "C.UTF-8", "KEY": "own"},
            **{"B": "own2", "PLAIN": "own", "C": "own2"},
        }
        assert dict(dotenv_values(file)) == {**values_of(project)[0], "EMPTY": None} or not server
