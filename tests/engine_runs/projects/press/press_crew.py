"""A crew of four: the last task skips its neighbours, the second answers in JSON, the third has a tool."""

import os

from crewai import LLM, Agent, Crew, Task
from crewai.tools import BaseTool
from pydantic import BaseModel


class Fact(BaseModel):
    text: str
    score: int


class Archive(BaseTool):
    name: str = "search_archive"
    description: str = "Searches the archive."

    def _run(self, words: str) -> str:
        return f"nothing about {words}"


RULES = "One of the press who never invents, never shouts and always names the source. " * 14


def no_shouting(output):  # type: ignore[no-untyped-def]
    return True, output


def make_crew() -> Crew:
    model = LLM(model="openai/gpt-4o-mini", stream="PRESS_STREAMS" in os.environ)
    researcher = Agent(role="Researcher of {topic}", goal="Know {topic}", backstory="Curious", llm=model)
    writer = Agent(role="Writer", goal="Write", backstory="Terse", llm=model)
    collect = Task(description="Collect {topic} in {year}, {tags}", expected_output="notes", agent=researcher)
    check = Task(
        description="Check {topic}", expected_output="a fact", agent=researcher, output_pydantic=Fact
    )
    write = Task(
        description="Write about {topic} for {year}",
        expected_output="an article",
        agent=writer,
        tools=[Archive()],
        guardrail=no_shouting,
    )
    title = Task(description="Title for {topic}", expected_output="a title", agent=writer, context=[collect])
    return Crew(name="press", agents=[researcher, writer], tasks=[collect, check, write, title])


def with_rules() -> Crew:
    """The same crew: its agents' roles begin alike, and each model has its own temperature."""
    crew = make_crew()
    for agent in crew.agents:
        agent.role = RULES + agent.role
        agent.llm = LLM(model="openai/gpt-4o-mini", temperature=0.3)
    return crew
