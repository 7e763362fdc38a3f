"""The article crew: research, draft, fact-check, headline."""

from crewai import LLM, Agent, Crew, Process, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.project import CrewBase, agent, crew, task
from pydantic import BaseModel

from newsroom.tools.archive import SearchTheArchive


class Claim(BaseModel):
    statement: str
    holds: bool


class FactCheck(BaseModel):
    verdict: str
    claims: list[Claim]


def model() -> LLM:
    """The newsroom's model. Its address and key come from the environment."""
    return LLM(model="openai/gpt-4o-mini", stream=True)


@CrewBase
class Newsroom:
    """The article crew."""

    agents: list[BaseAgent]
    tasks: list[Task]
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def researcher(self) -> Agent:
        return Agent(config=self.agents_config["researcher"], llm=model(), tools=[SearchTheArchive()])

    @agent
    def writer(self) -> Agent:
        return Agent(config=self.agents_config["writer"], llm=model())

    @agent
    def checker(self) -> Agent:
        return Agent(config=self.agents_config["checker"], llm=model())

    @task
    def research(self) -> Task:
        return Task(config=self.tasks_config["research"])

    @task
    def draft(self) -> Task:
        return Task(config=self.tasks_config["draft"])

    @task
    def fact_check(self) -> Task:
        return Task(config=self.tasks_config["fact_check"], output_pydantic=FactCheck)

    @task
    def headline(self) -> Task:
        # Only the draft: the fact-check would repeat it.
        return Task(config=self.tasks_config["headline"], context=[self.draft()])

    @crew
    def crew(self) -> Crew:
        return Crew(name="article", agents=self.agents, tasks=self.tasks, process=Process.sequential)
