"""Crews that know something, and that remember."""

from pathlib import Path

from crewai import Crew, Memory
from crewai.knowledge.source.string_knowledge_source import StringKnowledgeSource
from crewai.knowledge.source.text_file_knowledge_source import TextFileKnowledgeSource
from press_parts import model, plain

EMBEDDER = {"provider": "openai", "config": {"model_name": "text-embedding-3-small"}}
HOUSE = Path(__file__).resolve().parent / "knowledge/house.txt"


def knowing() -> Crew:
    """All know of the archive; the writer alone has read a file."""
    crew = plain()
    crew.agents[1].knowledge_sources = [TextFileKnowledgeSource(file_paths=[HOUSE])]
    return Crew(
        name="press",
        agents=crew.agents,
        tasks=crew.tasks,
        knowledge_sources=[StringKnowledgeSource(content="The archive's key is kept under the marigold.")],
        embedder=EMBEDDER,
    )


def remembering() -> Crew:
    """Its memory is the engine's usual one, in the project's storage."""
    crew = plain()
    return Crew(name="press", agents=crew.agents, tasks=crew.tasks, memory=True, embedder=EMBEDDER)


def remembering_apart() -> Crew:
    """Its memory is a separate object."""
    crew = plain()
    memory = Memory(llm=model(), embedder=EMBEDDER, root_scope="/desk")
    return Crew(name="press", agents=crew.agents, tasks=crew.tasks, memory=memory)
