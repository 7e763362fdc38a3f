from crewai import Agent
from tools.tickets import Tickets


class DayAgents:
    def guide(self):
        return Agent(
            role="Guide",
            goal="Know every street",
            backstory="Born there.",
            tools=[Tickets()],
            llm="openai/gpt-4o-mini",
        )

    def planner(self):
        return Agent(role="Planner", goal="Fill a day", backstory="Owns a watch.", llm="openai/gpt-4o-mini")
