from crewai import Task


class DayTasks:
    def sights(self, agent, town):
        return Task(description=f"Name sights of {town}", expected_output="Sights", agent=agent)

    def food(self, agent, town, weather):
        return Task(description=f"Find food in {town} in {weather}", expected_output="A place", agent=agent)

    def plan(self, agent, weather):
        return Task(description=f"Plan the day in {weather}", expected_output="A plan", agent=agent)
