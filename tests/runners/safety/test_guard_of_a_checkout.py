"""A recorded commit runs alone: whatever an environment adds to the import path, no present code runs."""

import json
import subprocess
import sys
import sysconfig
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.utils import timezone

from tests.jobs.code.repositories import committed
from viewer.host.jobs.checkout import Checkout, check_out
from viewer.host.jobs.environment import runner_environment
from viewer.models import Location, Project

RUNNERS = Path(__file__).resolve().parents[3] / "viewer" / "runners"
PRESENT = "is the present code of the project"
# As setuptools writes it for an editable installation, but for the place in ``sys.meta_path``.
FINDER = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        files = {files!r}
        return spec_from_file_location(name, files[name]) if name in files else None

def install():
    sys.meta_path.{place}
"""


@dataclass
class Scene:
    """A project in a repository, with an environment in it, and a checkout of its first commit."""

    project: Project
    checkout: Checkout
    packages: Path

    @property
    def folder(self) -> Path:
        return Path(self.project.folder)

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run code as a job's runner does, in the checkout's folder."""
        environment = runner_environment("job", self.project, self.checkout)
        enter = (
            f"import sys; sys.path.insert(0, {str(RUNNERS)!r}); from forkline_runner.project import enter\n"
        )
        enter += f"enter({str(self.checkout.of(self.folder))!r})\n"
        command = [self.project.interpreter, "-c", enter + textwrap.dedent(code)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd=self.checkout.path
        )

    def says(self, code: str) -> list[str]:
        done = self.run(code)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture
def scene(db: None, tmp_path: Path, settings: object) -> Scene:
    folder = tmp_path / "code"
    for name in ("src/news", "lib/tools", "extra"):
        (folder / name).mkdir(parents=True)
    (folder / "src/news/__init__.py").write_text("made = 'recorded'\n")
    (folder / "lib/tools/__init__.py").write_text("made = 'recorded'\n")
    (folder / "main.py").write_text("import news, tools\nmade = news.made, tools.made\n")
    commit = committed(folder, __gitignore=".venv\n")
    (folder / "src/news/__init__.py").write_text("made = 'present'\n")
    (folder / "lib/tools/__init__.py").write_text("made = 'present'\n")
    (folder / "src/later.py").write_text("made = 'present'\n")
    (folder / "extra/late.py").write_text("made = 'present'\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    python = folder / ".venv/bin/python"
    packages = folder / f".venv/lib/python{sysconfig.get_python_version()}/site-packages"
    (packages / "installed.py").write_text("made = 'installed'\n")
    project = Project.objects.create(folder=str(folder), interpreter=str(python), confirmed_at=timezone.now())
    job = tmp_path / "data" / "jobs" / "1"
    job.mkdir(parents=True)
    settings.DATA_DIR = tmp_path / "data"  # type: ignore[attr-defined]
    return Scene(project, check_out(project, commit, job / "checkout"), packages)


def editable(scene: Scene, place: str, **files: str) -> None:
    """Install an import hook for these modules, as an editable installation does."""
    named = {name: str(scene.folder / file) for name, file in files.items()}
    (scene.packages / "finder.py").write_text(FINDER.format(files=named, place=place))
    (scene.packages / "finder.pth").write_text("import finder; finder.install()\n")


def test_folders_of_an_editable_installation_are_those_of_the_checkout(scene: Scene) -> None:
    added = [str(scene.folder / name) for name in ("src", "lib", "extra")]
    (scene.packages / "project.pth").write_text("\n".join(added))
    assert scene.says("import main; print(*main.made)") == ["recorded", "recorded"]
    assert scene.says("import installed; print(installed.made)") == ["installed"]
    assert not [path for path in scene.says("import sys; print(*sys.path)") if path in added]


@pytest.mark.parametrize("name", ["later", "late"])
def test_a_module_that_the_commit_lacks_is_not_imported(scene: Scene, name: str) -> None:
    (scene.packages / "project.pth").write_text(f"{scene.folder / 'src'}\n{scene.folder / 'extra'}\n")
    assert f"No module named '{name}'" in scene.run(f"import {name}").stderr


def test_an_import_hook_that_comes_last_leaves_modules_to_the_checkout(scene: Scene) -> None:
    editable(scene, "append(Finder)", news="src/news/__init__.py")
    assert scene.says("import news; print(news.made)") == ["recorded"]


@pytest.mark.parametrize("place", ["append(Finder)", "insert(0, Finder)"])
def test_an_import_hook_with_the_present_code_is_refused(scene: Scene, place: str) -> None:
    editable(scene, place, tools="lib/tools/__init__.py", news="src/news/__init__.py")
    assert PRESENT in scene.run("import tools").stderr


@pytest.mark.parametrize(
    "code",
    [
        "sys.path.insert(0, {folder!r} + '/src'); import later",
        "exec(compile(open({folder!r} + '/src/later.py').read(), {folder!r} + '/src/later.py', 'exec'))",
        "import importlib.util as u; s = u.spec_from_file_location('later', {folder!r} + '/src/later.py'); "
        "s.loader.exec_module(u.module_from_spec(s))",
        "import os; os.symlink({folder!r} + '/src', 'linked'); sys.path.insert(0, 'linked'); import later",
        "import os; os.chdir({folder!r} + '/src'); sys.path.insert(0, ''); import later",
    ],
)
def test_code_of_the_working_tree_is_refused(scene: Scene, code: str) -> None:
    done = scene.run(code.format(folder=str(scene.folder)))
    assert done.returncode and PRESENT in done.stderr


def test_an_environment_that_imports_present_code_as_it_starts_is_refused(scene: Scene) -> None:
    (scene.packages / "project.pth").write_text(f"{scene.folder / 'src'}\nimport news\n")
    assert "when it starts, which is the present code" in scene.run("").stderr


def test_a_process_that_a_run_starts_imports_no_present_code(scene: Scene) -> None:
    (scene.packages / "project.pth").write_text(f"{scene.folder / 'src'}\n")
    code = "import subprocess; subprocess.run([sys.executable, '-c', 'import news; print(news.made)'])"
    assert scene.says(code) == ["recorded"]
    (scene.folder / "src/later.py").write_text("print('present')\n")
    code = f"import subprocess; subprocess.run([sys.executable, {str(scene.folder / 'src' / 'later.py')!r}])"
    assert "present" not in scene.run(code).stdout


def test_checkpoints_that_were_committed_are_no_code(scene: Scene) -> None:
    store = scene.folder / "src"
    Location.objects.create(path=str(store), store_kind=Location.StoreKind.JSON, project=scene.project)
    assert "which holds checkpoints" in scene.run("import news").stderr


def test_the_data_folder_stays_protected(scene: Scene) -> None:
    (scene.checkout.path.parent / "planted.py").write_text("made = 'planted'\n")
    done = scene.run("sys.path.insert(0, '..'); import planted")
    assert "which holds checkpoints or our own data" in done.stderr


def test_other_jobs_have_other_lists(scene: Scene) -> None:
    runner_environment("job", scene.project, scene.checkout)
    written = json.loads((scene.checkout.path.parent / "guard.json").read_text())
    assert written["checkout"] == str(scene.checkout.path)
    listed = runner_environment("job", scene.project)["FORKLINE_GUARD"]
    assert isinstance(json.loads(Path(listed).read_text()), list)
