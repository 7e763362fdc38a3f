"""Tricks that would load code from a location, and the project folder in which they are tried."""

import json
import os
import py_compile
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

ENGINES = Path(__file__).resolve().parents[3] / "viewer/runners"
STARTING = ENGINES / "forkline_guard/starting"
EVIL = "import os\nopen(os.environ['TRACE'], 'a').write('imported')\nVALUE = 1\n"


class Scene:
    """A project folder with a location inside it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.location = self.project / ".checkpoints"
        self.location.mkdir(parents=True)
        self.trace = folder / "trace"
        self.list = folder / "protected.json"

    def run(
        self, code: str, *, guarded: bool = True, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run this code in another Python, in the project's folder."""
        self.list.write_text(json.dumps([str(self.location)]))
        given = {"PATH": os.environ["PATH"], "TRACE": str(self.trace), "PYTHONDONTWRITEBYTECODE": "1"}
        before = "import sys\nsys.path.insert(0, '')\n"
        if guarded:
            before += f"sys.path.append({str(ENGINES)!r})\nimport forkline_guard as guard\n"
            before += f"guard.protect([{str(self.location)!r}])\n"
        return subprocess.run(
            [sys.executable, "-c", before + textwrap.dedent(code)],
            cwd=self.project,
            env={**given, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def put_back(self) -> None:
        """Undo what a trick has renamed."""
        former, tools = self.project / "former", self.project / "tools"
        if former.exists():
            if tools.is_symlink():
                tools.unlink()
            else:
                tools.rename(self.location)
            former.rename(tools)

    def refuses(self, code: str) -> None:
        """Assert that this code loads the module without the guard, and not with it."""
        free = self.run(code, guarded=False)
        assert self.trace.exists(), free.stderr
        self.trace.unlink()
        self.put_back()
        guarded = self.run(code)
        assert not self.trace.exists()
        assert guarded.returncode != 0
        # A folder or archive that is protected completely appears to be empty.
        reasons = ("which holds checkpoints or our own data", "ModuleNotFoundError", "find '__main__'")
        assert any(reason in guarded.stderr for reason in reasons), guarded.stderr


def source(scene: Scene, name: str = "evil.py") -> Path:
    path = scene.location / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(EVIL)
    return path


def on_the_path(scene: Scene) -> str:
    source(scene)
    return f"import sys; sys.path.insert(0, {str(scene.location)!r}); import evil"


def appended_by_a_relative_name(scene: Scene) -> str:
    source(scene)
    return "import sys; sys.path.append('.checkpoints'); import evil"


def through_a_linked_module(scene: Scene) -> str:
    (scene.project / "tool.py").symlink_to(source(scene))
    return "import tool"


def through_a_linked_folder(scene: Scene) -> str:
    source(scene)
    (scene.project / "tools").symlink_to(scene.location)
    return "import tools.evil"


def through_a_linked_package(scene: Scene) -> str:
    source(scene, "package/__init__.py")
    (scene.project / "package").symlink_to(scene.location / "package")
    return "import package"


def as_a_namespace_package(scene: Scene) -> str:
    source(scene, "inner/evil.py")
    return f"import sys; sys.path.insert(0, {str(scene.location)!r}); import inner.evil"


def by_a_packages_own_path(scene: Scene) -> str:
    source(scene)
    package = scene.project / "package"
    package.mkdir()
    (package / "__init__.py").write_text(f"__path__.append({str(scene.location)!r})\n")
    return "import package.evil"


def by_a_relative_import(scene: Scene) -> str:
    source(scene, "evil/__init__.py")
    package = scene.project / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from . import evil\n")
    (package / "evil").symlink_to(scene.location / "evil")
    return "import package"


def compiled_without_source(scene: Scene) -> str:
    path = source(scene)
    py_compile.compile(str(path), cfile=str(scene.location / "evil.pyc"), dfile="/elsewhere/evil.py")
    path.unlink()
    return f"import sys; sys.path.insert(0, {str(scene.location)!r}); import evil"


def a_linked_compiled_module(scene: Scene) -> str:
    compiled_without_source(scene)
    (scene.project / "evil.pyc").symlink_to(scene.location / "evil.pyc")
    return "import evil"


def from_a_linked_cache(scene: Scene) -> str:
    path = scene.project / "evil.py"
    path.write_text(EVIL)
    made = Path(
        py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH) or ""
    )
    made.parent.rename(scene.location / "cache")
    (scene.project / "__pycache__").symlink_to(scene.location / "cache")
    path.write_text("VALUE = 1\n")
    return "import evil"


def loaded_by_its_file(scene: Scene) -> str:
    path = source(scene)
    return f"""
        import importlib.util
        spec = importlib.util.spec_from_file_location("evil", {str(path)!r})
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    """


def compiled_and_loaded_by_its_file(scene: Scene) -> str:
    compiled_without_source(scene)
    return f"""
        from importlib.machinery import SourcelessFileLoader
        import types
        loader = SourcelessFileLoader("evil", {str(scene.location / "evil.pyc")!r})
        exec(loader.get_code("evil"), {{}})
    """


def run_as_a_program(scene: Scene) -> str:
    return f"import runpy; runpy.run_path({str(source(scene))!r})"


def run_as_a_module(scene: Scene) -> str:
    source(scene, "__main__.py")
    return f"import runpy; runpy.run_path({str(scene.location)!r})"


def out_of_an_archive(scene: Scene) -> str:
    with zipfile.ZipFile(scene.location / "store.db", "w") as archive:
        archive.writestr("evil.py", EVIL)
    return f"import sys; sys.path.insert(0, {str(scene.location / 'store.db')!r}); import evil"


def with_finders_of_their_own_before_the_guard(scene: Scene) -> str:
    path = source(scene)
    return f"""
        import sys, importlib.util
        class First:
            def find_spec(self, name, path=None, target=None):
                if name == "evil":
                    return importlib.util.spec_from_file_location(name, {str(path)!r})
        sys.meta_path.insert(0, First())
        import evil
    """


def with_the_guards_finder_removed(scene: Scene) -> str:
    source(scene)
    return f"""
        import sys
        from importlib.machinery import FileFinder, SourceFileLoader, PathFinder
        sys.meta_path[:] = [PathFinder]
        sys.path_hooks[:] = [FileFinder.path_hook((SourceFileLoader, [".py"]))]
        sys.path_importer_cache.clear()
        sys.path.insert(0, {str(scene.location)!r})
        import evil
    """


def after_a_change_of_folder(scene: Scene) -> str:
    source(scene)
    return "import os; os.chdir('.checkpoints'); import evil"


def through_a_folder_that_became_a_link(scene: Scene) -> str:
    source(scene)
    (scene.project / "tools").mkdir()
    (scene.project / "tools/first.py").write_text("")
    return """
        import importlib, os, sys
        sys.path.insert(0, os.path.abspath("tools"))
        import first
        os.rename("tools", "former")
        os.symlink(".checkpoints", "tools")
        importlib.invalidate_caches()
        import evil
    """


def by_a_new_name_that_was_another_folders(scene: Scene) -> str:
    return through_a_folder_that_became_a_link(scene).replace("os.symlink", "os.rename")


TRICKS: list[Callable[[Scene], str]] = [
    *(on_the_path, appended_by_a_relative_name, through_a_linked_module, through_a_linked_folder),
    *(through_a_linked_package, as_a_namespace_package, by_a_packages_own_path, by_a_relative_import),
    *(compiled_without_source, a_linked_compiled_module, from_a_linked_cache, loaded_by_its_file),
    *(compiled_and_loaded_by_its_file, run_as_a_program, run_as_a_module, out_of_an_archive),
    *(with_finders_of_their_own_before_the_guard, with_the_guards_finder_removed, after_a_change_of_folder),
    *(through_a_folder_that_became_a_link, by_a_new_name_that_was_another_folders),
]
