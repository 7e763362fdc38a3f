"""A lone agent: the interviewer."""

from crewai import Agent

from newsroom.crew import model


def interviewer() -> Agent:
    """An agent that belongs to no crew."""
    return Agent(
        role="Interviewer",
        goal="Ask what the article leaves open",
        backstory="You have never asked a question that can be answered with yes.",
        llm=model(),
    )
