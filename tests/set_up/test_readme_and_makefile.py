"""The set-up matches the statements of the README and the Makefile."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TARGETS = (
    "setup",
    "demo",
    "up",
    "test",
    "check",
    "reference",
    "bench",
    "chaos",
    "cluster",
    "fuzz",
    "matrix",
    "matrix-crewai",
    "matrix-crewai-new",
    "matrix-langgraph",
    "screens",
    "screenshots",
    "clean-demo",
)
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt", "demo/requirements.txt")
# Split, so that this file does not contain them.
REGISTRIES = (
    "pypi." + "org",
    "python" + "hosted",
    "registry." + "npmjs",
    "deb." + "debian",
    "un" + "pkg.com",
)
HOMES = re.compile(r"(?<![\w.~$}])/(?:root|work|home/(?!me/)\w+|Users/\w+)/(?!\.\.\.)")


def dependencies(name: str) -> list[str]:
    """Return the lines of a requirements file that name a package."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


def package_of(dependency: str) -> str:
    return re.split(r"[\[<>=!~ ]", dependency)[0]


def committed_texts() -> list[tuple[str, str]]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        data = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in data:
            found.append((name, data.decode()))
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_the_makefile_has_the_target(target: str) -> None:
    shown = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr


def test_make_matrix_runs_the_rows_of_every_engine() -> None:
    shown = subprocess.run(["make", "-n", "matrix"], cwd=ROOT, capture_output=True, text=True, check=True)
    parts = re.findall(r"-m (quality\.compatibility\S*)$", shown.stdout, re.M)
    assert parts == ["quality.compatibility", "quality.compatibility.graphs"]
    chosen = ["make", "-n", "matrix", "VERSIONS=1.0.5"]
    refused = subprocess.run(chosen, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode and "matrix-crewai and matrix-langgraph only" in refused.stderr


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_dependency_has_a_lower_and_an_upper_bound(name: str) -> None:
    assert dependencies(name)
    # Some packages have only pre-releases, such as 0.66b1.
    bounds = r">=[\d.]+((a|b|rc)\d+)?,<[\d.]+$"
    unbounded = [line for line in dependencies(name) if not re.search(bounds, line)]
    assert unbounded == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_the_readme_gives_a_reason_for_every_dependency(name: str) -> None:
    section = (ROOT / "README.md").read_text().partition("\n## Dependencies\n")[2].partition("\n## ")[0]
    named = re.findall(r"^- (`[^:]+`): \S", section, re.M)
    reasoned = {package_of(package) for names in named for package in re.findall(r"`([^`]+)`", names)}
    assert [line for line in dependencies(name) if package_of(line) not in reasoned] == []


def test_the_web_application_does_not_install_the_engine() -> None:
    assert "crewai" not in [package_of(line) for line in dependencies("requirements.txt")]
    assert "crewai" in [package_of(line) for line in dependencies("demo/requirements.txt")]


def test_the_demo_project_requires_what_its_requirements_install() -> None:
    project = tomllib.loads((ROOT / "demo/pyproject.toml").read_text())["project"]
    assert project["dependencies"] == dependencies("demo/requirements.txt")


def test_no_committed_file_names_a_registry_or_a_home() -> None:
    texts = committed_texts()
    assert len(texts) > 50
    found = [
        f"{name}: {line.strip()[:80]}"
        for name, text in texts
        for line in text.splitlines()
        if any(registry in line for registry in REGISTRIES) or HOMES.search(line)
    ]
    assert found == []
