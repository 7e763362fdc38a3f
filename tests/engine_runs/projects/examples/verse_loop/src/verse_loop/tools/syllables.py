"""A tool of the critic."""

from crewai.tools import BaseTool
from pydantic import BaseModel, Field


class Line(BaseModel):
    text: str = Field(..., description="The line to count in")


class SyllableTool(BaseTool):
    name: str = "syllables"
    description: str = "Counts the vowels of a line."
    args_schema: type[BaseModel] = Line

    def _run(self, text: str) -> str:
        return str(sum(letter in "aeiou" for letter in text))
