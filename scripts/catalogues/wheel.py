"""Compiles the catalogues when a wheel is built, because a wheel is installed without a build step."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Catalogues(BuildHookInterface):  # type: ignore[misc]
    """Hatch's hook before a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and include what git ignores."""
        sys.path.insert(0, self.root)
        from scripts.catalogues.compiling import compile_catalogues

        compile_catalogues(Path(self.root) / "viewer" / "locale")
        build_data["artifacts"].append("viewer/locale/*/LC_MESSAGES/django.mo")
