"""The crew of press_crew, whose agents' roles begin alike, and whose models have settings of their own."""

from crewai import LLM, Crew
from press_crew import make_crew

RULES = "One of the press who never invents, never shouts and always names the source. " * 14


def with_rules() -> Crew:
    crew = make_crew()
    for agent in crew.agents:
        agent.role = RULES + agent.role
        agent.llm = LLM(model="openai/gpt-4o-mini", temperature=0.3)
    return crew
