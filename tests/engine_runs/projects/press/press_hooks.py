"""A crew in CrewAI's own layout, with hooks around its kickoff, and with files that its tasks write."""

from typing import Any

from crewai import Agent, Crew, Task
from crewai.project import CrewBase, after_kickoff, agent, before_kickoff, crew, task
from press_parts import TEXTS, model, trace


@CrewBase
class PressHooks:
    agents_config: dict[str, Any] = {}
    tasks_config: dict[str, Any] = {}

    @before_kickoff
    def shout(self, inputs: dict[str, Any]) -> dict[str, Any]:
        trace(f"before {inputs['topic']}")
        return {**inputs, "topic": inputs["topic"] + "!"}

    @after_kickoff
    def sign(self, output: Any) -> Any:
        trace("after")
        output.raw += " (signed)"
        return output

    @agent
    def writer(self) -> Agent:
        return Agent(role="Writer", goal="Write", backstory="Terse", llm=model(stream=True))

    @task
    def collect(self) -> Task:
        return self._made(0, "collected.txt")

    @task
    def check(self) -> Task:
        return self._made(1, "checked.txt")

    @task
    def write(self) -> Task:
        return self._made(2, "on-{topic}.txt")

    @crew
    def crew(self) -> Crew:
        return Crew(name="press", agents=self.agents, tasks=self.tasks)

    def _made(self, number: int, file: str) -> Task:
        return Task(
            description=TEXTS[number],
            expected_output="words",
            agent=self.writer(),
            output_file=file,
        )


def hooked() -> Crew:
    made: Crew = PressHooks().crew()
    return made
