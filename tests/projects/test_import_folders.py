"""The folder that is proposed for a project is the one in which its imports resolve."""

from pathlib import Path

import pytest

from viewer.host.projects import import_folder, propose_project


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project that is run from src/newsroom."""
    folder = tmp_path / "newsroom"
    write(folder / "pyproject.toml", '[project]\nname = "newsroom"\n')
    write(folder / ".env", "KEY=value\n")
    write(
        folder / "src/newsroom/main.py",
        "from crewai.flow.flow import Flow\nfrom tools.search import Search\n\nclass News(Flow): ...\n",
    )
    write(folder / "src/newsroom/tools/search.py", "class Search: ...\n")
    (folder / ".checkpoints").mkdir()
    return folder


def test_modules_that_import_siblings_are_run_from_their_folder(project: Path) -> None:
    proposed = propose_project(project / ".checkpoints")

    assert proposed.folder == project / "src/newsroom"
    assert [point.name for point in proposed.entry_points] == ["main:News"]
    assert proposed.environment_file == project / ".env"


def test_an_environment_file_next_to_the_modules_takes_precedence(project: Path) -> None:
    write(project / "src/newsroom/.env", "KEY=other\n")

    assert propose_project(project / ".checkpoints").environment_file == project / "src/newsroom/.env"


@pytest.mark.parametrize(
    "imports",
    [
        "from newsroom.tools.search import Search",
        "from .tools.search import Search",
        "import json",
        "from tools import (",
    ],
)
def test_a_project_whose_imports_resolve_is_run_from_its_own_folder(project: Path, imports: str) -> None:
    write(project / "src/newsroom/main.py", f"{imports}\n")

    assert import_folder(project, project / ".checkpoints") == project


def test_a_sibling_that_the_project_also_resolves_changes_nothing(project: Path) -> None:
    write(project / "tools/search.py")

    assert import_folder(project, project / ".checkpoints") == project


def test_a_sibling_named_like_a_standard_module_changes_nothing(project: Path) -> None:
    write(project / "src/newsroom/types.py")
    write(project / "src/newsroom/main.py", "import types\n")

    assert import_folder(project, project / ".checkpoints") == project


def test_of_several_packages_the_one_around_the_location_is_used(project: Path) -> None:
    write(project / "src/sports/main.py", "import scores\n")
    write(project / "src/sports/scores.py")

    assert import_folder(project, project / ".checkpoints") == project
    assert import_folder(project, project / "src/sports/.checkpoints") == project / "src/sports"


def test_a_linked_package_is_not_read(project: Path, tmp_path: Path) -> None:
    (project / "src/newsroom").rename(tmp_path / "elsewhere")
    (project / "src/newsroom").symlink_to(tmp_path / "elsewhere")

    assert import_folder(project, project / ".checkpoints") == project
