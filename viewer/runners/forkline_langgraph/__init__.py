"""The part of the runner that knows LangGraph. Imported in the project's interpreter.

``forkline_tables`` is viewer/engines/langgraph/tables, loaded by its path: a project may have a package
``viewer``.
"""

import importlib.util
import sys
from pathlib import Path


def _load_tables() -> None:
    folder = Path(__file__).resolve().parents[2] / "engines" / "langgraph" / "tables"
    spec = importlib.util.spec_from_file_location(
        "forkline_tables", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None, folder
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


_load_tables()
