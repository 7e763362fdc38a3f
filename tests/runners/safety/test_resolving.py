"""The files of a module are found in every layout of packages, and nothing is imported."""

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

RUNNERS = Path(__file__).resolve().parents[3] / "viewer/runners"
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.path[:0] = json.loads(sys.argv[2])
{before}
from forkline_runner import resolving
known = set(sys.modules)
found = {{}}
for name in json.loads(sys.argv[3]):
    try:
        found[name] = [[file.name, file.path] for file in resolving.files_of(name)]
    except resolving.Unresolved as error:
        found[name] = error.reason
sources = sorted(resolving.imported_by(json.loads(sys.argv[4])))
print(json.dumps([found, sources, sorted(set(sys.modules) - known)]))
"""
PKGUTIL = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
PKG_RESOURCES = "__import__('pkg_resources').declare_namespace(__name__)\n"
EDITABLE = """
import sys
from importlib.util import spec_from_file_location
from importlib.machinery import ModuleSpec
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        mapping = {"ns.tool": TOOL}
        if name in mapping:
            return spec_from_file_location(name, mapping[name] + "/__init__.py")
class Entry:
    @staticmethod
    def find_spec(name, target=None):
        if name == "ns":
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = ["placeholder"]
            return spec
def hook(path):
    if path == "placeholder":
        return Entry
    raise ImportError
sys.meta_path.append(Finder)
sys.path_hooks.append(hook)
sys.path.append("placeholder")
"""


def write(folder: Path, **files: str) -> None:
    """Write modules by their dotted names; a name that ends with two underscores is a package's __init__."""
    for name, text in files.items():
        path = folder / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def resolved(
    folder: Path, *names: str, path: tuple[Path | str, ...] = (), before: str = "", entry_point: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Return the files of each module, or why there are none, and what the entry point imports."""
    entries = [str(one) for one in path or (folder,)]
    arguments = [str(RUNNERS), json.dumps(entries), json.dumps(names), json.dumps([entry_point])]
    code = PROGRAM.format(before=textwrap.dedent(before))
    printed = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert printed.returncode == 0, printed.stderr
    found, sources, imported = json.loads(printed.stdout)
    assert not [one for one in imported if one.split(".")[0] in ("ns", "outer", "loud")]
    files = {
        name: what if isinstance(what, str) else [os.path.relpath(file, folder) for _name, file in what]
        for name, what in found.items()
    }
    return files, sources


def test_a_module_below_several_namespace_packages(tmp_path: Path) -> None:
    write(tmp_path, **{"ns.middle.low.leaf": ""})
    found, _sources = resolved(tmp_path, "ns.middle.low.leaf", "ns.middle.low", "ns.middle.missing.leaf")
    assert found["ns.middle.low.leaf"] == ["ns/middle/low/leaf.py"]
    assert found["ns.middle.low"] == "a folder without code"
    assert found["ns.middle.missing.leaf"] == "not found"


def test_a_regular_package_below_a_namespace_package_below_a_regular_package(tmp_path: Path) -> None:
    write(tmp_path, **{"outer.__init__": "", "outer.open.inner.__init__": "", "outer.open.inner.leaf": ""})
    found, _sources = resolved(tmp_path, "outer.open.inner.leaf")
    files = ["outer/__init__.py", "outer/open/inner/__init__.py", "outer/open/inner/leaf.py"]
    assert found["outer.open.inner.leaf"] == files


def test_portions_of_a_namespace_package_in_several_entries_of_the_path(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, **{"ns.deep.one": ""})
    write(second, **{"ns.deep.two": "", "ns.deep.one": "shadowed"})
    found, _sources = resolved(tmp_path, "ns.deep.one", "ns.deep.two", path=(first, second))
    assert found == {"ns.deep.one": ["first/ns/deep/one.py"], "ns.deep.two": ["second/ns/deep/two.py"]}


def test_a_regular_package_ends_the_search_for_portions(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, **{"ns.one": ""})
    write(second, **{"ns.__init__": "", "ns.two": ""})
    found, _sources = resolved(tmp_path, "ns.one", "ns.two", path=(first, second))
    assert found == {"ns.one": "not found", "ns.two": ["second/ns/__init__.py", "second/ns/two.py"]}


@pytest.mark.parametrize("style", [PKGUTIL, PKG_RESOURCES])
def test_namespace_packages_of_before_python_3_3(tmp_path: Path, style: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, **{"ns.__init__": style, "ns.one": ""})
    write(second, **{"ns.__init__": style, "ns.two.__init__": "", "ns.two.leaf": ""})
    found, _sources = resolved(tmp_path, "ns.two.leaf", path=(first, second))
    assert found["ns.two.leaf"] == [
        "first/ns/__init__.py",
        "second/ns/two/__init__.py",
        "second/ns/two/leaf.py",
    ]


def test_a_project_that_is_installed_in_editable_mode(tmp_path: Path) -> None:
    tool = tmp_path / "src/tool"
    write(tool, __init__="", leaf="")
    before = f"TOOL = {str(tool)!r}\n{EDITABLE}"
    found, _sources = resolved(tmp_path, "ns.tool.leaf", "ns.tool", "ns.other", before=before)
    assert found["ns.tool.leaf"] == ["src/tool/__init__.py", "src/tool/leaf.py"]
    assert found["ns.tool"] == ["src/tool/__init__.py"] and found["ns.other"] == "not found"


def test_a_path_file_adds_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", **{"ns.part.leaf": ""})
    (tmp_path / "site").mkdir()
    (tmp_path / "site/project.pth").write_text(f"{tmp_path}/elsewhere\n")
    before = f"import site; site.addsitedir({str(tmp_path / 'site')!r})"
    found, _sources = resolved(tmp_path, "ns.part.leaf", before=before)
    assert found["ns.part.leaf"] == ["elsewhere/ns/part/leaf.py"]


def test_the_path_of_a_loaded_package_is_used(tmp_path: Path) -> None:
    write(tmp_path / "hidden", **{"part.leaf": ""})
    write(tmp_path, **{"ns.own": ""})
    before = f"""
        import sys, types
        sys.modules["ns"] = types.ModuleType("ns")
        sys.modules["ns"].__path__ = [{str(tmp_path / "hidden")!r}]
    """
    assert resolved(tmp_path, "ns.part.leaf", before=before)[0]["ns.part.leaf"] == ["hidden/part/leaf.py"]


def test_a_module_in_an_archive_has_no_source_to_check(tmp_path: Path) -> None:
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("ns/", "ns/deep/", "ns/deep/leaf.py"):
            file.writestr(name, "")
    write(tmp_path, **{"ns.deep.beside": ""})
    found, _sources = resolved(tmp_path, "ns.deep.leaf", "ns.deep.beside", path=(archive, tmp_path))
    assert found == {"ns.deep.leaf": "it has no source", "ns.deep.beside": ["ns/deep/beside.py"]}


def test_stubs_are_no_code(tmp_path: Path) -> None:
    (tmp_path / "ns").mkdir()
    (tmp_path / "ns/__init__.pyi").touch()
    (tmp_path / "ns/leaf.pyi").touch()
    found, _sources = resolved(tmp_path, "ns", "ns.leaf")
    assert found == {"ns": "a folder without code", "ns.leaf": "not found"}


@pytest.mark.parametrize(
    "action",
    [
        "import loud",
        "__import__('importlib').import_module('loud')",
        "import subprocess; subprocess.run(['touch', 'ran'])",
        "import os; os.system('touch ran')",
        'exec(\'open("ran", "w")\')',
        "raise KeyError(name)",
        "return object()",
    ],
)
def test_a_finder_of_the_environment_runs_nothing(tmp_path: Path, action: str) -> None:
    write(tmp_path, loud="open('ran', 'w')", **{"ns.leaf": ""})
    before = f"""
        import subprocess, sys
        from forkline_runner import resolving
        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                {action}
        sys.meta_path.insert(0, Finder)
    """
    found, _sources = resolved(tmp_path, "ns.leaf", before=before)
    assert found["ns.leaf"] == ["ns/leaf.py"] and not (tmp_path / "ran").exists()


def test_the_imports_of_an_entry_point_are_followed_through_namespace_packages(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "agents.graph": "from ns.deep import leaf\nfrom .state import State\nimport ns.missing\n",
            "agents.state": "class State: ...",
            "ns.deep.leaf": "import json",
        },
    )
    _found, sources = resolved(tmp_path, entry_point="agents.graph:graph")
    assert sources == ["agents.graph", "agents.state", "ns.deep.leaf"]
