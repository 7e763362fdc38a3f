"""Checks the locked packages for known vulnerabilities. The exit status is 1 if there are any.

The check needs a network. Without one, it prints a note and succeeds, so that working offline stays possible.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
TIMEOUT_SECONDS = 300


def main() -> int:
    """Print the vulnerabilities. Return the exit status."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "-r", str(LOCK), "-f", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError):
        packages = []
    lines, status = report(packages)
    sys.stdout.write("\n".join([*lines, ""]))
    return status


def report(packages: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """Return the text to print for pip-audit's ``dependencies``, and the exit status."""
    checked = [package for package in packages if "vulns" in package]
    found = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        for package in checked
        for vulnerability in package["vulns"]
    ]
    if found:
        return [*found, "Update them with: scripts/lock --upgrade"], 1
    if not checked:
        return ["Known vulnerabilities: not checked, as the registry's advisories cannot be reached."], 0
    skipped = len(packages) - len(checked)
    return [f"Known vulnerabilities: none in {len(checked)} packages, {skipped} not checked."], 0


if __name__ == "__main__":
    sys.exit(main())
