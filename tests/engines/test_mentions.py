"""What all engines share mentions no term that only one of them has, such as crews and flows."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ("presentation", "web", "records", "launching", "formats.py")
# The documents of an example are those of one engine.
EXAMPLES = ROOT / "viewer/web/api/examples.py"
TERM = re.compile(r"crew|(?<!-)\bflows?\b|\bflow_|_flow\b", re.IGNORECASE)


def test_what_engines_share_mentions_none() -> None:
    files = [
        *(
            path
            for name in SHARED
            for path in [ROOT / "viewer" / name, *(ROOT / "viewer" / name).rglob("*.py")]
        ),
        *(path for path in (ROOT / "templates").rglob("*.html") if "engines" not in path.parts),
    ]
    lines = {
        path.relative_to(ROOT).as_posix(): [
            line
            for line in path.read_text().splitlines()
            if TERM.search(line) and not line.startswith("from allauth.")
        ]
        for path in files
        if path.is_file() and path != EXAMPLES
    }
    assert len(lines) > 100
    assert {name: found for name, found in lines.items() if found} == {}
