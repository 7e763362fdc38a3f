"""The project that is proposed for a location. Proposing runs nothing."""

import os
from pathlib import Path

import pytest

from viewer.engines.crewai import entry_points
from viewer.engines.crewai.entry_points import entry_point_for, find_entry_points
from viewer.engines.entry_points import EntryPoint
from viewer.host.projects import ProposedProject, engine_version, propose_project, python_version


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "newsroom"
    (folder / ".checkpoints").mkdir(parents=True)
    write(folder / "pyproject.toml", '[project]\nname = "newsroom"\n')
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def environment(folder: Path) -> Path:
    """Create an environment with a link to a Python, like venv."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    write(folder / "pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    return python


def names(folder: Path) -> list[str]:
    return [point.name for point in find_entry_points(folder)]


def test_the_project_is_the_nearest_folder_with_a_pyproject(project: Path) -> None:
    python = environment(project / ".venv")
    write(project / ".env", "OPENAI_API_KEY=not-read-here\n")
    proposed = propose_project(project / ".checkpoints")
    assert (proposed.folder, proposed.interpreter) == (project, python)
    assert proposed.environment_file == project / ".env"


def test_a_project_is_proposed_for_a_database_file(project: Path) -> None:
    assert propose_project(write(project / "data" / "cp.db", "")).folder == project


def test_without_a_pyproject_the_folder_with_an_environment_is_proposed(tmp_path: Path) -> None:
    environment(tmp_path / "work" / "venv")
    (tmp_path / "work" / "runs" / "cp").mkdir(parents=True)
    proposed = propose_project(tmp_path / "work" / "runs" / "cp")
    assert proposed.folder == tmp_path / "work"
    assert proposed.interpreter == tmp_path / "work/venv/bin/python"


def test_without_project_files_the_parent_folder_is_proposed(tmp_path: Path) -> None:
    (tmp_path / "a" / "cp").mkdir(parents=True)
    assert propose_project(tmp_path / "a" / "cp") == ProposedProject(
        tmp_path / "a", None, None, (), is_found=False
    )


def test_the_link_of_an_interpreter_is_not_resolved(project: Path) -> None:
    environment(project / ".venv")
    found = propose_project(project / ".checkpoints").interpreter
    assert found is not None and found.is_symlink()


def test_the_environment_of_a_workspace_is_found_if_it_has_the_engine(project: Path) -> None:
    python = environment(project.parent / ".venv")
    assert propose_project(project / ".checkpoints").interpreter is None
    (project.parent / ".venv/lib/python3.11/site-packages/crewai-1.15.30.dist-info").mkdir(parents=True)
    assert propose_project(project / ".checkpoints").interpreter == python


def test_versions_are_read_without_running_the_interpreter(project: Path) -> None:
    python = environment(project / ".venv")
    (project / ".venv/lib/python3.11/site-packages/crewai-1.15.30.dist-info").mkdir(parents=True)
    (project / ".venv/lib/python3.11/site-packages/crewai_tools-9.dist-info").mkdir(parents=True)
    assert (python_version(python), engine_version(python)) == ("3.11.2", "1.15.30")
    assert (python_version(Path("/bin/sh")), engine_version(Path("/bin/sh"))) == ("", "")


def test_flows_are_found_through_generics_aliases_and_base_classes(project: Path) -> None:
    write(
        project / "base.py", "from crewai.flow.flow import Flow as Engine\nclass Base(Engine[State]): pass\n"
    )
    write(project / "desk" / "__init__.py", "")
    write(
        project / "desk" / "flow.py", "from base import Base\nclass Desk(Base): pass\nclass Workflow: pass\n"
    )
    write(project / "other.py", "import crewai\nclass Other(crewai.Flow): pass\n")
    assert sorted(names(project)) == ["base:Base", "desk.flow:Desk", "other:Other"]
    assert {point.kind for point in find_entry_points(project)} == {"flow"}


def test_crews_and_agents_are_found_by_decorator_annotation_and_return_value(project: Path) -> None:
    source = """
from crewai import Crew
from crewai.project import CrewBase

@CrewBase
class Newsroom:
    def crew(self) -> Crew: ...

def annotated(verbose: bool = False) -> "Crew": ...

def plain():
    return Crew(agents=[])

def needs(topic: str) -> Crew: ...

def agent(llm=None) -> Agent: ...

def something_else() -> int:
    return 3
"""
    write(project / "src" / "newsroom" / "crew.py", source)
    assert find_entry_points(project) == (
        EntryPoint("newsroom.crew:Newsroom", "crew"),
        EntryPoint("newsroom.crew:annotated", "crew"),
        EntryPoint("newsroom.crew:plain", "crew"),
        EntryPoint("newsroom.crew:agent", "agent"),
    )


def test_the_projects_own_settings_come_first(project: Path) -> None:
    write(project / "a.py", "from crewai import Crew\ndef build() -> Crew: ...\n")
    write(project / "b.py", "from crewai import Flow\nclass B(Flow): pass\n")
    write(project / "pyproject.toml", '[tool.crewai]\ntype = "flow"\n')
    assert names(project) == ["b:B", "a:build"]
    write(project / "pyproject.toml", '[project.scripts]\nrun = "b:main"\n')
    assert names(project) == ["b:B", "a:build"]
    write(project / "pyproject.toml", '[tool.crewai]\ntype = "crew"\n')
    assert names(project) == ["a:build", "b:B"]


def test_proposing_runs_nothing(project: Path) -> None:
    trace = project / "ran"
    code = f"open({str(trace)!r}, 'w')\nfrom crewai import Flow\nclass A(Flow): pass\n"
    for name in ("a.py", "conftest.py", "setup.py", "sitecustomize.py"):
        write(project / name, code)
    python = write(project / ".venv/bin/python", f"#!/bin/sh\ntouch {trace}\n")
    python.chmod(0o755)
    assert "a:A" in [point.name for point in propose_project(project / ".checkpoints").entry_points]
    assert not trace.exists()


@pytest.mark.parametrize(
    "text", ["class A(Flow:", "\0Flow", "Flow" + "(" * 50_000, "Flow\n" + "-" * 20_000 + "1", "# Flow\n\xff"]
)
def test_files_that_are_not_python_are_skipped(project: Path, text: str) -> None:
    (project / "broken.py").write_bytes(text.encode("latin-1"))
    write(project / "whole.py", "class A(Flow): pass\n")
    assert names(project) == ["whole:A"]


@pytest.mark.parametrize("text", ["[project", "project = 3", "[tool]\ncrewai = []", "\udcff"])
def test_an_unreadable_pyproject_still_marks_the_folder(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    write(project / "a.py", "class A(Flow): pass\n")
    assert propose_project(project / ".checkpoints").folder == project
    assert names(project) == ["a:A"]


def test_source_outside_and_in_environments_is_not_read(project: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "out.py", "class Out(Flow): pass\n")
    (project / "linked").symlink_to(outside.parent)
    (project / "linked.py").symlink_to(outside)
    environment(project / "env311")
    write(project / "env311" / "inside.py", "class Inside(Flow): pass\n")
    write(project / ".hidden" / "hidden.py", "class Hidden(Flow): pass\n")
    write(project / "no-module" / "odd.py", "class Odd(Flow): pass\n")
    assert names(project) == []


def test_reading_source_is_bounded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_points, "MAX_FILES", 3)
    for number in range(9):
        write(project / f"m{number}.py", "class A(Flow): pass\n")
    assert len(names(project)) == 3
    monkeypatch.setattr(entry_points, "MAX_BYTES_ALTOGETHER", 45)
    assert len(names(project)) == 2
    monkeypatch.undo()
    monkeypatch.setattr(entry_points, "MAX_FOLDERS", 1)
    write(project / "deeper" / "n.py", "class A(Flow): pass\n")
    assert len(names(project)) == 9
    monkeypatch.undo()
    write(project / "m0.py", "class A(Flow): pass\n" + "#" * entry_points.MAX_BYTES)
    assert "m0:A" not in names(project)


def test_an_unreadable_folder_is_skipped(project: Path) -> None:
    closed = project / "closed"
    closed.mkdir(mode=0o000)
    try:
        assert os.access(project, os.R_OK)
        assert names(project) == []
    finally:
        closed.chmod(0o755)


def test_the_entry_point_of_a_checkpoint_is_the_class_of_its_flow_or_the_only_crew(project: Path) -> None:
    write(project / "src/desk/crew.py", "from crewai import Crew\ndef build() -> Crew: ...\n")
    write(
        project / "src/desk/flow.py",
        "from crewai import Flow\nclass Desk(Flow): ...\nclass Night(Flow): ...\n",
    )
    points = [point.name for point in find_entry_points(project)]
    assert entry_point_for(project, points, "flow", "Night") == "desk.flow:Night"
    assert entry_point_for(project, points, "crew", "article crew") == "desk.crew:build"
    assert entry_point_for(project, points, "flow", "Gone") == ""
    assert entry_point_for(project, ["desk.flow:Desk"], "flow", "Gone") == ""
    assert entry_point_for(project, ["desk.flow:Desk"], "flow", "") == "desk.flow:Desk"
    assert entry_point_for(project, [], "crew", "article crew") == ""


def test_of_several_crews_only_the_one_with_the_name_of_the_checkpoint_is_chosen(project: Path) -> None:
    source = "from crewai import Crew\ndef article_crew() -> Crew: ...\ndef other() -> Crew: ...\n"
    write(project / "crews.py", source)
    points = ["crews:article_crew", "crews:other"]
    assert entry_point_for(project, points, "crew", "Article Crew") == "crews:article_crew"
    assert entry_point_for(project, points, "crew", "crew") == ""


def test_a_flow_with_a_base_class_in_another_folder_is_found_by_its_name(project: Path) -> None:
    write(project / "desk.py", "from base import Base\nclass Desk(Base): ...\n")
    assert entry_point_for(project, ["desk:Desk", "gone:Other"], "flow", "Desk") == "desk:Desk"


def test_a_place_without_a_project_says_that_none_was_found(tmp_path: Path) -> None:
    (tmp_path / "lonely/.checkpoints").mkdir(parents=True)
    proposed = propose_project(tmp_path / "lonely/.checkpoints")
    assert not proposed.is_found and proposed.folder == tmp_path / "lonely"
    (tmp_path / "pyproject.toml").touch()
    assert propose_project(tmp_path / "lonely/.checkpoints").is_found
