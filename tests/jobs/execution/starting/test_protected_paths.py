"""Protected paths, and the projects that cannot run because of them."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from pytest_django import Settings

from viewer.host.jobs.environment import (
    PLACEHOLDER,
    conflict_of,
    placeholder_for,
    prewarm_environment,
    protected_paths,
    runnable,
    runner_environment,
)
from viewer.host.jobs.files import make_private_folder
from viewer.host_requests import JobRefused
from viewer.models import Location, Project

pytestmark = pytest.mark.django_db


def located(path: Path, store_kind: str = "json") -> Location:
    return Location.objects.create(path=str(path), store_kind=store_kind)


def test_locations_and_the_data_folder_are_protected(project: Project, settings: Settings) -> None:
    folder = Path(project.folder)
    located(folder / "checkpoints")
    assert set(protected_paths(project)) == {
        str(folder / "checkpoints"),
        str(settings.DATA_DIR),
        os.path.realpath(settings.DATA_DIR),
    }
    assert conflict_of(project) is None


def test_a_store_protects_its_folder_unless_the_projects_code_is_there(project: Project) -> None:
    folder = Path(project.folder)
    package = folder / "src" / "newsroom"
    package.mkdir(parents=True)
    project.entry_points = ["newsroom.crew:build"]
    for nested in (folder, folder / "src", package, folder / "stores", package / "tools"):
        located(nested / "store.db", "sqlite")
    protected = set(protected_paths(project))
    assert protected >= {str(nested / "store.db") for nested in (folder, folder / "src", package)}
    assert {str(folder / "stores"), str(package / "tools")} <= protected
    assert not {str(folder), str(folder / "src"), str(package)} & protected
    assert conflict_of(project) is None


@pytest.mark.parametrize("nested", [".", "..", "src", "src/newsroom"])
def test_a_location_with_the_projects_code_is_refused_by_name(project: Project, nested: str) -> None:
    (Path(project.folder) / "src/newsroom").mkdir(parents=True)
    project.entry_points = ["newsroom.crew:build"]
    located((Path(project.folder) / nested).resolve())
    with pytest.raises(JobRefused, match="is in"):
        runnable(project)


def test_an_interpreter_inside_a_location_is_refused(project: Project) -> None:
    nested = Path(project.folder) / "checkpoints"
    (nested / "env/bin").mkdir(parents=True)
    (nested / "env/bin/python").symlink_to(sys.executable)
    located(nested)
    (Path(project.folder) / ".venv").symlink_to(nested / "env")
    for interpreter in (nested / "env/bin/python", Path(project.folder) / ".venv/bin/python"):
        project.interpreter = str(interpreter)
        with pytest.raises(JobRefused, match="interpreter is in"):
            runnable(project)


def test_a_pth_file_that_names_a_location_is_refused(project: Project) -> None:
    environment = Path(project.folder) / ".venv"
    packages = environment / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin/python").symlink_to(sys.executable)
    project.interpreter = str(environment / "bin/python")
    nested = Path(project.folder) / "checkpoints"
    located(nested)
    (packages / "fine.pth").write_text(f"# {nested}\nimport sys\n{project.folder}\n")
    assert conflict_of(project) is None
    (packages / "other.pth").write_text("../../../../checkpoints/sub\n")
    assert "other.pth" in str(conflict_of(project))


def test_an_environment_file_in_a_location_is_refused(
    project: Project, settings: Settings, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    nested = Path(project.folder) / "checkpoints"
    nested.mkdir()
    (nested / ".env").write_text("A=1\n")
    project.environment_file = str(nested / ".env")
    located(nested)
    with pytest.raises(JobRefused, match="environment file is in"):
        runnable(project)
    own = Path(settings.DATA_DIR) / "demo"
    own.mkdir(parents=True, exist_ok=True)
    (own / ".env").write_text("A=1\n")
    project.environment_file = str(own / ".env")
    assert conflict_of(project) is None


def test_code_folders_in_a_location_are_removed_from_the_environment(project: Project) -> None:
    nested = Path(project.folder) / "checkpoints"
    nested.mkdir()
    located(nested)
    file = Path(project.folder) / "keys.env"
    file.write_text(
        f"PYTHONPATH={nested}:lib:checkpoints/sub\nPYTHONPYCACHEPREFIX={nested}\nPYTHONUSERBASE=checkpoints\n"
        f"PYTHONHOME=\nLD_LIBRARY_PATH={nested}\n"
    )
    project.environment_file = str(file)
    found = runner_environment("job", project)
    assert found["PYTHONPATH"].split(os.pathsep)[1:] == ["lib"]
    assert not {"PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"} & found.keys() and found["LD_LIBRARY_PATH"] == ""
    assert str(nested) in json.loads(Path(found["FORKLINE_GUARD"]).read_text())
    assert stat.S_IMODE(Path(found["FORKLINE_GUARD"]).stat().st_mode) == 0o600
    # Prewarmed processes have the same guard.
    assert prewarm_environment(project)["FORKLINE_GUARD"] == found["FORKLINE_GUARD"]


def test_a_preflight_check_gets_no_value_of_the_environment_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://ada:canary@proxy.example:3128")
    file = Path(project.folder) / "keys.env"
    file.write_text(
        "OPENAI_API_KEY=sk-proj-canary\nDATABASE_URL=postgresql://ada:canary@db.example/news\n"
        'OPENAI_BASE_URL=https://canary.example/v1\nNAME=canary\nEXTRA={"a": "canary"}\nPIN_CODE=canary\n'
        "MODEL=openai/gpt-4o-mini\nDEBUG=true\nPORT=8080\nEMPTY=\nSECRET_NUMBER=1234\n"
    )
    project.environment_file = str(file)
    assert "canary" in str(runner_environment("job", project))
    found = runner_environment("job", project, is_preflight=True)
    assert "canary" not in str(found) and "example" not in str(found)
    assert found["OPENAI_API_KEY"] == f"sk-{PLACEHOLDER}" and found["SECRET_NUMBER"] == PLACEHOLDER
    assert found["DATABASE_URL"] == "postgresql://placeholder.invalid" and found["EXTRA"] == "{}"
    passed = {name: found[name] for name in ("MODEL", "DEBUG", "PORT", "EMPTY")}
    assert passed == {"MODEL": "openai/gpt-4o-mini", "DEBUG": "true", "PORT": "8080", "EMPTY": ""}


def test_an_existing_path_is_not_a_key(tmp_path: Path) -> None:
    assert placeholder_for("KNOWLEDGE", str(tmp_path)) == str(tmp_path)
    assert placeholder_for("KNOWLEDGE", str(tmp_path / "gone")) == PLACEHOLDER


def test_preflight_folders_are_private_even_if_they_existed(tmp_path: Path) -> None:
    checks = tmp_path / "checks"
    checks.mkdir(mode=0o755)
    checks.chmod(0o755)
    make_private_folder(checks / "one")
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (checks, checks / "one")} == {0o700}
