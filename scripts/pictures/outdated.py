"""Notices pictures in docs/pictures that are older than the page they show."""

import json
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
# The digest of each page's sources when its pictures were taken.
RECORDED = PICTURES / "sources.json"
COMMON = ("templates/base.html", "templates/components", "static/css/design")
RUN = ("templates/runs", "templates/run_head", "templates/checkpoints", "static/css/runs")
FORM = ("templates/launch", "templates/edits", "templates/preflight", "static/css/jobs/fork.css")
# What makes the page of each picture, besides what all pages have in common.
SOURCES = {
    "code": (*FORM, "templates/forks"),
    "fork": (*FORM, "templates/forks"),
    "locations": ("templates/home", "templates/run_list", "static/css/home.css"),
    "pruned-threads": ("templates/pruning", "static/css/pruning.css"),
    "question": (*RUN, "templates/inbox", "templates/engines/langgraph"),
    "replay": ("templates/calls", "static/css/runs/calls.css", "static/css/runs/compare.css"),
    "run": (*RUN, "templates/engines/crewai"),
    "running": (*RUN, "templates/live"),
    "scores": ("templates/sweeps", "templates/collections", "static/css/jobs/sweeps.css"),
    "search": ("templates/search", "static/css/search.css"),
    "several-runs": (*FORM, "templates/bulk", "static/css/jobs/bulk.css"),
    "share": ("templates/shares", "static/css/shares.css"),
    # Taken by make screens.
    "stops": (
        *RUN,
        *FORM,
        *("templates/home", "templates/locations", "templates/forks", "templates/inbox", "templates/live"),
        *("templates/compare", "templates/publishing", "templates/pruning"),
    ),
    "timeline": ("templates/timeline", "static/css/runs/timeline.css"),
    "tools": (*FORM, "templates/forks"),
    "variations": ("templates/sweeps", "static/css/jobs/sweeps.css"),
}


def outdated() -> list[str]:
    """Return the names of the pictures whose page has changed since they were taken."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return [name for name, digest in _digests().items() if recorded.get(name) != digest]


def record_sources(names: Collection[str]) -> None:
    """Record that these pictures show the present pages."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    taken = {name: digest for name, digest in _digests().items() if name in names}
    RECORDED.write_text(json.dumps(recorded | taken, indent=2, sort_keys=True) + "\n")


def _digests() -> dict[str, str]:
    return {name: _digest([*COMMON, *sources]) for name, sources in SOURCES.items()}


def _digest(sources: list[str]) -> str:
    found = sha256()
    for source in sources:
        path = ROOT / source
        files = sorted(one for one in path.rglob("*") if one.suffix in (".html", ".css"))
        for file in files if path.is_dir() else [path]:
            found.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    if names := outdated():
        print(
            f"WARNING: The pages of these pictures have changed: {', '.join(names)}. "
            "Run make screenshots, or make screens for the stops."
        )
