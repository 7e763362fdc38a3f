"""The lock file pins all requirements, and known vulnerabilities fail the check."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import check_vulnerabilities
from scripts.check_vulnerabilities import report

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([A-Za-z0-9_.\-]+)(?:\[[^\]]*\])?==(\S+)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)


def pins() -> dict[str, list[tuple[str, str]]]:
    """Return the versions, markers and hashes of each locked package."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, version, rest in PIN.findall((ROOT / "requirements.lock").read_text()):
        found.setdefault(canonicalize_name(name), []).append((version, rest))
    return found


def test_every_requirement_is_pinned_within_its_range() -> None:
    locked = pins()
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        requirement = Requirement(line)
        versions = [version for version, _rest in locked.get(canonicalize_name(requirement.name), [])]
        assert versions, f"{requirement.name} is not locked: run scripts/lock"
        assert all(requirement.specifier.contains(version) for version in versions), (
            f"{requirement} is locked at {versions}: run scripts/lock"
        )


def test_every_pin_has_a_hash() -> None:
    for name, versions in pins().items():
        assert all("--hash=sha256:" in rest for _version, rest in versions), name


def test_the_lock_names_no_registry() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


def test_a_known_vulnerability_fails_the_check() -> None:
    vulnerability = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    lines, status = report([{"name": "example", "version": "1.0", "vulns": [vulnerability]}])

    assert status == 1
    assert lines[0] == "example 1.0: PYSEC-1, fixed in 2.0"


@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_check_of_nothing_says_so(count: int) -> None:
    packages = [{"name": str(number), "skip_reason": "not found"} for number in range(count)]
    lines, status = report(packages, "not found")

    assert status == 0
    assert lines[0].startswith("WARNING: No package was checked for known vulnerabilities.")
    assert "none" not in lines[0] and len(lines) == 1


def test_packages_that_were_not_checked_are_counted() -> None:
    packages: list[dict[str, Any]] = [
        {"name": "one", "version": "1", "vulns": []},
        {"name": "two", "skip_reason": "not found"},
    ]

    assert report(packages) == (
        ["Known vulnerabilities: none in 1 packages.", "WARNING: 1 of 2 packages were not checked: two"],
        0,
    )
    vulnerability = {"id": "PYSEC-1", "fix_versions": []}
    lines, status = report([{"name": "one", "version": "1", "vulns": [vulnerability]}, packages[1]])
    assert status == 1 and "not checked: two" in lines[-1]


def test_a_package_that_pypi_lacks_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text(
        f"""#!{sys.executable}
import json, sys
file, service = (sys.argv[sys.argv.index(option) + 1] for option in ("-r", "-s"))
names = [line.partition("==")[0] for line in open(file) if "==" in line]
found = [{{"name": name, "version": "1", "vulns": []}} for name in names]
if service == "pypi":
    found[0] = {{"name": names[0], "skip_reason": "not found"}}
else:
    assert len(names) == 1 and "--hash=sha256:" in open(file).read()
    found[0]["vulns"] = [{{"id": "PYSEC-2", "fix_versions": ["2"]}}]
if sys.argv[0].rpartition("/")[2] != service:
    print(json.dumps({{"dependencies": found}}))
"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert check_vulnerabilities.main() == 1
    assert capsys.readouterr().out.startswith("ahocorasick-rs 1: PYSEC-2, fixed in 2")
    # OSV does not answer.
    osv = program.rename(tmp_path / "osv")
    monkeypatch.setattr(sys, "executable", str(osv))
    assert check_vulnerabilities.main() == 0
    printed = capsys.readouterr().out
    assert re.search(r"none in \d\d packages.\nWARNING: 1 of \d\d packages were not checked: ahoco", printed)


@pytest.mark.parametrize("result", ["", "{}", "[]", "null", '{"dependencies": ', "Traceback"])
def test_a_check_that_fails_is_no_success(
    result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{result}'\necho 'no route to host' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    check_vulnerabilities.main()
    printed = capsys.readouterr().out
    assert "WARNING: No package was checked" in printed and "no route to host" in printed
