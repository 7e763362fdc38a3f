"""Three agents watch the price of a product. Their texts are in config."""

from crewai import Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, crew, task
from crewai.state.checkpoint_config import CheckpointConfig
from tools.shelf import ShelfTool


@CrewBase
class PriceWatch:
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def scout(self) -> Agent:
        return Agent(config=self.agents_config["scout"], tools=[ShelfTool("north")])

    @agent
    def buyer(self) -> Agent:
        return Agent(config=self.agents_config["buyer"])

    @task
    def find_prices(self) -> Task:
        return Task(config=self.tasks_config["find_prices"])

    @task
    def compare_prices(self) -> Task:
        return Task(config=self.tasks_config["compare_prices"])

    @task
    def advise(self) -> Task:
        return Task(config=self.tasks_config["advise"])

    @crew
    def crew(self) -> Crew:
        return Crew(
            agents=self.agents,
            tasks=self.tasks,
            process=Process.sequential,
            checkpoint=CheckpointConfig(location=".checkpoints", on_events=["task_completed"]),
        )
