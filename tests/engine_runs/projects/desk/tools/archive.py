"""A tool of the project's own, which crew.jsonc names as ``custom:archive``."""

from crewai.tools import BaseTool
from desk_rules import trace


class ArchiveTool(BaseTool):
    name: str = "archive"
    description: str = "Looks a word up."

    def _run(self, word: str) -> str:
        trace(f"archive {word}")
        return f"archived {word}"
