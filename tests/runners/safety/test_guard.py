"""The import guard, in plain Python processes: each trick that would load code from a location fails.

Every case first shows that the trick works without the guard.
"""

import hashlib
import os
import sysconfig
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runners.safety.import_tricks import (
    EVIL,
    STARTING,
    TRICKS,
    Scene,
    source,
    through_a_folder_that_became_a_link,
    through_a_linked_module,
)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_is_imported_from_a_location(scene: Scene, trick: Callable[[Scene], str]) -> None:
    scene.refuses(trick(scene))


@pytest.mark.parametrize("trick", [through_a_linked_module, through_a_folder_that_became_a_link])
def test_links_are_resolved_where_the_kernel_opens_no_paths(
    scene: Scene, trick: Callable[[Scene], str]
) -> None:
    code = textwrap.dedent(trick(scene))
    # macOS has no O_PATH.
    guarded = scene.run(f"guard._O_PATH = 0\n{code}")
    assert not scene.trace.exists()
    assert "which holds checkpoints" in guarded.stderr


def test_a_cached_answer_about_a_folder_is_not_used_for_another_one_at_its_path(scene: Scene) -> None:
    (scene.project / "tools").mkdir()
    code = """
        import os
        print(bool(guard.covering("tools/one.py")))
        os.rename("tools", "former")
        os.rename(".checkpoints", "tools")
        print(bool(guard.covering("tools/one.py")))
    """
    assert scene.run(code).stdout.split() == ["False", "True"]


def test_a_native_module_in_a_location_is_not_loaded(scene: Scene) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    (scene.location / f"evil{suffix}").write_bytes(b"no library")
    code = f"import sys; sys.path.insert(0, {str(scene.location)!r}); import evil"
    assert "file too short" in scene.run(code, guarded=False).stderr
    assert "which holds checkpoints" in scene.run(code).stderr
    by_hand = f"""
        import _imp
        from importlib.machinery import ExtensionFileLoader, ModuleSpec
        path = {str(scene.location / f"evil{suffix}")!r}
        _imp.create_dynamic(ModuleSpec("evil", ExtensionFileLoader("evil", path), origin=path))
    """
    assert "file too short" in scene.run(by_hand, guarded=False).stderr
    assert "which holds checkpoints" in scene.run(by_hand).stderr


def test_modules_elsewhere_are_imported_even_with_the_same_name(scene: Scene) -> None:
    source(scene, "other.py")
    (scene.project / "tool.py").write_text("VALUE = 2\n")
    code = "import sys; sys.path.append('.checkpoints'); import tool, json, sqlite3; print(tool.VALUE)"
    assert scene.run(code).stdout == "2\n"


def test_a_location_added_later_is_protected_under_every_name(scene: Scene, tmp_path: Path) -> None:
    source(scene)
    link = tmp_path / "link"
    link.symlink_to(scene.location)
    code = f"""
        guard.protect([{str(link)!r}])
        sys.path.insert(0, {str(scene.location)!r})
        try:
            import evil
        except ImportError as error:
            print(type(error).__name__)
    """
    assert scene.run(code).stdout == "ImportRefused\n"


@pytest.mark.parametrize("code", ["import evil", "import runpy; runpy.run_path('.checkpoints/evil.py')"])
def test_a_python_that_the_project_starts_is_guarded_too(scene: Scene, code: str) -> None:
    source(scene)
    starts = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {code!r}]).returncode)"
    path = os.pathsep.join([str(STARTING), str(scene.location)])
    scene.run(starts, guarded=False, PYTHONPATH=str(scene.location))
    assert scene.trace.exists()
    scene.trace.unlink()
    ended = scene.run(starts, guarded=False, PYTHONPATH=path, FORKLINE_GUARD=str(scene.list))
    assert not scene.trace.exists()
    assert ended.returncode == 1 and "sitecustomize" not in ended.stderr


@pytest.mark.parametrize("content", [None, "[", '{"checkout": "/nowhere"}'])
def test_a_python_whose_guard_cannot_be_installed_runs_nothing(
    scene: Scene, tmp_path: Path, content: str | None
) -> None:
    source(scene, "sitecustomize.py")
    unreadable = tmp_path / "list-\udcff.json"
    if content is not None:
        unreadable.write_text(content)
    path = os.pathsep.join([str(STARTING), str(scene.location)])
    ended = scene.run(
        "print('it runs')", guarded=False, PYTHONPATH=path, FORKLINE_GUARD=os.fspath(unreadable)
    )
    assert not scene.trace.exists()
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "The import guard was not installed" in ended.stderr


def test_the_environments_own_sitecustomize_is_loaded_after_the_guard(scene: Scene) -> None:
    (scene.project / "sitecustomize.py").write_text("import sys; sys.own = 1\n")
    path = os.pathsep.join([str(STARTING), str(scene.project)])
    code = "import sys; print(sys.own, [one for one in sys.path if 'forkline' in one])"
    ended = scene.run(code, guarded=False, PYTHONPATH=path, FORKLINE_GUARD=str(scene.list))
    assert ended.stdout == "1 []\n", ended.stderr


def test_a_pinned_module_is_imported_only_as_it_was_checked(scene: Scene) -> None:
    tool = scene.project / "tool.py"
    tool.write_text("VALUE = 2\n")
    digest = hashlib.sha256(tool.read_bytes()).hexdigest()
    code = f"guard.pin('tool', {str(tool)!r}, {digest!r})\nimport tool\nprint(tool.VALUE)"
    assert scene.run(code).stdout == "2\n"
    tool.write_text(EVIL)
    assert "has changed since it was checked" in scene.run(code).stderr
    assert not scene.trace.exists()
    tool.unlink()
    (scene.project / "tool").mkdir()
    (scene.project / "tool/__init__.py").write_text(EVIL)
    assert "was checked at" in scene.run(code).stderr
    assert not scene.trace.exists()
