"""Modules import each other in no circle, lazily or for types either. pyproject.toml has the other rules."""

from graphlib import TopologicalSorter

import grimp

PACKAGES = (
    "checkpoint_site",
    "viewer",
    "forkline_guard",
    "forkline_prewarm",
    "forkline_runner",
    "forkline_crewai",
    "forkline_langgraph",
)


def test_there_are_no_circles_of_modules() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError with the modules of a circle.
    TopologicalSorter(imports).prepare()
