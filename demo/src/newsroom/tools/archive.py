"""The newsroom's own tool: its archive of notes, source by source."""

import json
import re
from pathlib import Path

from crewai.tools import BaseTool
from pydantic import BaseModel, Field

NOTES = Path(__file__).parent.parent / "knowledge" / "archive.json"


class ArchiveQuestion(BaseModel):
    """What the archive is asked."""

    source: str = Field(..., description="The source to look in, such as arXiv.")
    question: str = Field(..., description="A few words on what is sought.")


class SearchTheArchive(BaseTool):
    """Looks up what a source has said on a question."""

    name: str = "search_the_archive"
    description: str = "Searches the newsroom's archive: the notes of one source that match a few words."
    args_schema: type[BaseModel] = ArchiveQuestion

    def _run(self, source: str, question: str) -> str:
        notes: dict[str, list[str]] = json.loads(NOTES.read_text(encoding="utf-8"))
        known = {name.lower(): name for name in notes}
        name = known.get(source.lower())
        if name is None:
            return f"The archive holds nothing from {source}. It holds: {', '.join(notes)}."
        words = set(re.findall(r"\w+", question.lower()))
        ranked = sorted(notes[name], key=lambda note: -len(words & set(re.findall(r"\w+", note.lower()))))
        return " ".join(ranked[:2])
