"""Checks the locked packages for known vulnerabilities. The exit status is 1 if there are any.

PyPI is asked about each package. Those that it does not have are named, and looked up at OSV, which has
more vulnerabilities. The check needs a network. Without one, it says that it checked nothing, and why,
and succeeds, so that working offline stays possible.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
TIMEOUT_SECONDS = 300
# Packages that were not checked and are named.
MAX_NAMED = 5


def main() -> int:
    """Print the vulnerabilities, and what was not checked. Return the exit status."""
    lock = LOCK.read_text()
    packages, failure = audited(lock, "pypi")
    # An index in between may have no vulnerabilities, or lack single packages.
    if missing := {str(package["name"]) for package in packages if "vulns" not in package}:
        others, failure = audited(pins_of(lock, missing), "osv")
        found = {package["name"]: package for package in others if "vulns" in package}
        packages = [found.get(package["name"], package) for package in packages]
    lines, status = report(packages, failure)
    sys.stdout.write("\n".join([*lines, ""]))
    return status


def audited(lock: str, service: str) -> tuple[list[dict[str, Any]], str]:
    """Return pip-audit's ``dependencies`` for these pins, and why there are none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(lock)
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "-r", file.name, "-s", service]
        command += ["-f", "json", "--progress-spinner", "off"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return [], f"pip-audit did not end within {TIMEOUT_SECONDS} seconds."
    failure = done.stderr.strip().rpartition("\n")[2] or "pip-audit printed no result."
    try:
        return list(json.loads(done.stdout)["dependencies"]), failure
    except (ValueError, LookupError, TypeError):
        return [], failure


def pins_of(lock: str, names: Collection[str]) -> str:
    """The pins of these packages in a lock file, with their hashes."""
    found = []
    for pin in re.split(r"\n(?=[A-Za-z0-9])", lock):
        name = re.match(r"[A-Za-z0-9._-]+", pin)
        if name and canonicalize_name(name[0]) in names:
            found.append(pin)
    return "\n".join([*found, ""])


def report(packages: Sequence[Mapping[str, Any]], failure: str = "") -> tuple[list[str], int]:
    """Return the text to print for pip-audit's ``dependencies``, and the exit status.

    ``failure`` is why there are no dependencies, or why those that PyPI does not have were not checked.
    """
    checked = [package for package in packages if "vulns" in package]
    skipped = [package for package in packages if "vulns" not in package]
    lines = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        for package in checked
        for vulnerability in package["vulns"]
    ]
    status = 1 if lines else 0
    if lines:
        lines.append("Update them with: scripts/lock --upgrade")
    elif checked:
        lines.append(f"Known vulnerabilities: none in {len(checked)} packages.")
    names = ", ".join(str(package["name"]) for package in skipped[:MAX_NAMED])
    names += ", …" if len(skipped) > MAX_NAMED else ""
    if not checked:
        absent = f"PyPI does not have {names} ({len(skipped)} in all), and of OSV: " if skipped else ""
        lines.append(
            f"WARNING: No package was checked for known vulnerabilities. The reason: {absent}{failure}"
        )
    elif skipped:
        lines.append(f"WARNING: {len(skipped)} of {len(packages)} packages were not checked: {names}")
    return lines, status


if __name__ == "__main__":
    sys.exit(main())
