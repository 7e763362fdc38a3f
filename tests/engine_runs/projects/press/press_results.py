"""Flows whose methods hand on more than texts, and whose routes begin at once."""

import os
from typing import Any

from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow, listen, router, start
from crewai.state.checkpoint_config import CheckpointConfig
from press_crew import Fact
from press_flow import ask
from press_parts import model


class FactFlow(Flow[dict[str, Any]]):
    """Facts of a named class, in a list, and of a class that nothing names."""

    @start()
    def find(self) -> Fact:
        return Fact(text=ask("Find"), score=3)

    @listen(find)
    def gather(self, found: Fact) -> list[Fact]:
        return [found, Fact(text=ask("Gather"), score=found.score + 1)]

    @listen(find)
    def guess(self, found: Fact):  # type: ignore[no-untyped-def]
        return Fact(text=ask("Guess"), score=found.score)

    @listen(gather)
    def add(self, found: list[Fact]) -> str:
        return ask(f"Add {sum(fact.score for fact in found)}")

    @listen(guess)
    def weigh(self, guessed: Any) -> str:
        return ask(f"Weigh {type(guessed).__name__}")


class ReadFlow(Flow[dict[str, Any]]):
    """A fact whose class only its listener names."""

    @start()
    def find(self):  # type: ignore[no-untyped-def]
        return Fact(text=ask("Find"), score=3)

    @listen(find)
    def read(self, found: Fact) -> str:
        return ask(f"Read {found.score}")


class AtOnceFlow(Flow[dict[str, Any]]):
    """It begins with a route."""

    @start()
    @router("nowhere")
    def turn(self) -> str:
        ask("Turn")
        return "left"

    @listen("left")
    def go_left(self) -> str:
        return ask("Go left")

    @listen(go_left)
    def arrive(self) -> str:
        return ask("Arrive")


class DeskFlow(Flow[dict[str, Any]]):
    """A crew of three inside its second method."""

    @start()
    def open(self) -> str:
        return "paper"

    @listen(open)
    def work(self, heard: str) -> str:
        agent = Agent(role="Writer", goal="Write", backstory="Terse", llm=model())
        tasks = [
            Task(description=text, expected_output="words", agent=agent)
            for text in ("Collect {word}", "Check {word}", "Write about {word}")
        ]
        crew = Crew(
            name="desk",
            agents=[agent],
            tasks=tasks,
            checkpoint=CheckpointConfig(
                location=os.environ.get("PRESS_STORE", "./store"), on_events=["task_completed"]
            ),
        )
        return str(crew.kickoff(inputs={"word": heard}).raw)

    @listen(work)
    def close(self, heard: str) -> str:
        return ask(f"Close <{heard}>")


class PlainFlow(Flow[dict[str, Any]]):
    """Dictionaries that are no objects, and an object whose attributes nobody reads."""

    @start()
    def literal(self):  # type: ignore[no-untyped-def]
        found = {"text": ask("Literal")}
        found["more"] = ask("More")
        return found

    @listen(literal)
    def dumped(self, heard):  # type: ignore[no-untyped-def]
        return Fact(text=heard["text"], score=len(heard.items()) - 1).model_dump()

    @listen(dumped)
    def passed_on(self, heard):  # type: ignore[no-untyped-def]
        return self.same(heard)

    @listen(passed_on)
    def last(self, heard):  # type: ignore[no-untyped-def]
        return ask(f"Last {heard['score']}")

    def same(self, value: Any) -> Any:
        return value
