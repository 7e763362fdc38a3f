from crewai import Agent, Crew, Task
from crewai.project import CrewBase, agent, crew, task
from pydantic import BaseModel
from verse_loop.tools.syllables import SyllableTool


class Verdict(BaseModel):
    flaws: int
    remarks: str


@CrewBase
class CriticCrew:
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def critic(self) -> Agent:
        return Agent(config=self.agents_config["critic"], tools=[SyllableTool()])

    @task
    def judge_verse(self) -> Task:
        return Task(config=self.tasks_config["judge_verse"], output_pydantic=Verdict)

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks)
