from crewai import Agent, Crew, Task
from crewai.project import CrewBase, agent, crew, task


@CrewBase
class PoetCrew:
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def poet(self) -> Agent:
        return Agent(config=self.agents_config["poet"])

    @task
    def write_verse(self) -> Task:
        return Task(config=self.tasks_config["write_verse"])

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks)
