"""Checks the locked packages for known vulnerabilities. The exit status is 1 if there are any.

The check needs a network. Without one, it says that it checked nothing, and why, and succeeds, so that
working offline stays possible.
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
# Packages that were not checked and are named.
MAX_NAMED = 5


def main() -> int:
    """Print the vulnerabilities, and what was not checked. Return the exit status."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "-r", str(LOCK), "-f", "json"]
    packages, failure = [], ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        failure = done.stderr.strip().rpartition("\n")[2] or "pip-audit printed no result."
        packages = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        failure = f"pip-audit did not end within {TIMEOUT_SECONDS} seconds."
    except (ValueError, LookupError, TypeError):
        pass
    lines, status = report(packages, failure)
    sys.stdout.write("\n".join([*lines, ""]))
    return status


def report(packages: Sequence[Mapping[str, Any]], failure: str = "") -> tuple[list[str], int]:
    """Return the text to print for pip-audit's ``dependencies``, and the exit status.

    ``failure`` is why there are no dependencies.
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
    if not checked:
        reason = skipped[0].get("skip_reason") if skipped else failure
        lines.append(f"WARNING: No package was checked for known vulnerabilities. The reason: {reason}")
    elif skipped:
        names = ", ".join(str(package["name"]) for package in skipped[:MAX_NAMED])
        more = ", …" if len(skipped) > MAX_NAMED else ""
        lines.append(f"WARNING: {len(skipped)} of {len(packages)} packages were not checked: {names}{more}")
    return lines, status


if __name__ == "__main__":
    sys.exit(main())
