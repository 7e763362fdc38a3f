"""Asks where to go, and plans a day."""

from crewai import Crew
from crewai.state.checkpoint_config import CheckpointConfig
from day_agents import DayAgents
from day_tasks import DayTasks


class DayOut:
    def __init__(self, town, weather):
        self.town = town
        self.weather = weather

    def run(self):
        agents, tasks = DayAgents(), DayTasks()
        guide, planner = agents.guide(), agents.planner()
        sights = tasks.sights(guide, self.town)
        food = tasks.food(guide, self.town, self.weather)
        plan = tasks.plan(planner, self.weather)
        crew = Crew(
            agents=[guide, planner],
            tasks=[sights, food, plan],
            checkpoint=CheckpointConfig(location="./.checkpoints", on_events=["task_completed"]),
        )
        return crew.kickoff()


if __name__ == "__main__":
    town = input("Which town? ")
    weather = input("What weather? ")
    print(DayOut(town, weather).run())
