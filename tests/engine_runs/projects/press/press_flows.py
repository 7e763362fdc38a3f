"""Flows with a plain dictionary as their state, with joined listeners, and with a crew inside."""

from typing import Any

from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow, and_, listen, or_, router, start
from press_flow import ask
from press_parts import model


class JoinedFlow(Flow[dict[str, Any]]):
    """Two starts; one listener waits for both of what they lead to, one for either."""

    @start()
    def north(self) -> str:
        self.state["north"] = "snow"
        return "from north"

    @listen(north)
    def south(self, heard: str) -> str:
        return ask(f"South after <{heard}>")

    @listen(and_(north, south))
    def both(self) -> str:
        return ask(f"Both of {self.state['topic']} with {self.state['north']}")

    @listen(or_(both, "nowhere"))
    def either(self, heard: str) -> str:
        return ask(f"Either after <{heard}>")


class TurningFlow(Flow[dict[str, Any]]):
    @start()
    def look(self) -> str:
        return ask("Look")

    @router(look)
    def turn(self, seen: str) -> str:
        return "left" if self.state["year"] > 2000 else "right"

    @listen("left")
    def go_left(self) -> str:
        return ask("Go left")

    @listen("right")
    def go_right(self) -> str:
        return ask("Go right")


class CrewFlow(Flow[dict[str, Any]]):
    """A crew's two tasks between two methods."""

    @start()
    def before(self) -> str:
        return ask("Before")

    @listen(before)
    def work(self, heard: str) -> str:
        agent = Agent(role="Writer", goal="Write", backstory="Terse", llm=model())
        tasks = [
            Task(description=text, expected_output="words", agent=agent)
            for text in ("First {word}", "Second")
        ]
        return str(Crew(agents=[agent], tasks=tasks).kickoff(inputs={"word": heard}).raw)

    @listen(work)
    def after(self, heard: str) -> str:
        return ask(f"After <{heard}>")
