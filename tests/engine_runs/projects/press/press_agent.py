"""A lone agent."""

from crewai import LLM, Agent


def interviewer() -> Agent:
    return Agent(role="Interviewer", goal="Ask", backstory="Patient", llm=LLM(model="openai/gpt-4o-mini"))
