"""Names a model whose provider's package the demo's environment does not have."""

from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow, listen, start
from press_flow import ask
from press_parts import plain


class LateFlow(Flow[dict[str, bool]]):
    """Makes its crew only after a call that was paid for."""

    @start()
    def first(self) -> str:
        return ask("First")

    @listen(first)
    def second(self, heard: str) -> str:
        if self.state.get("skips"):
            return heard
        agent = Agent(role="Late", goal="Answer", backstory="Late", llm="anthropic/claude-sonnet-4-5")
        task = Task(description=f"After {heard}", expected_output="words", agent=agent)
        return str(Crew(agents=[agent], tasks=[task]).kickoff())


def planned() -> Crew:
    """Its planner's model is made at the kickoff."""
    crew = plain()
    crew.planning, crew.planning_llm = True, "anthropic/claude-sonnet-4-5"
    return crew
