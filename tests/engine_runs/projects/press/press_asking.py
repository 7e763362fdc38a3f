"""What asks a person: a task's answer, feedback for a flow now or later, and a flow's own question."""

import os
from typing import Any

from crewai import Crew
from crewai.flow import HumanFeedbackPending, human_feedback, persist
from crewai.flow.flow import Flow, listen, start
from crewai.flow.persistence import SQLiteFlowPersistence
from press_flow import ask
from press_parts import plain

STATES = SQLiteFlowPersistence(os.environ.get("PRESS_STATES") or "states.db")


def asking() -> Crew:
    """The third task's answer is looked over."""
    return plain(human_input=True)


class Later:
    """Leaves the flow to wait, as a provider that writes to a chat does."""

    def request_feedback(self, context: Any, flow: Any) -> str:
        raise HumanFeedbackPending(context=context)


@persist(STATES)
class ReviewFlow(Flow[dict[str, Any]]):
    """Stops after its draft until somebody says something of it."""

    @start()
    def collect(self) -> str:
        return ask("Collect")

    @listen(collect)
    @human_feedback(
        message="Is it good?",
        emit=["rejected", "approved"],
        llm="openai/gpt-4o-mini",
        default_outcome="rejected",
        provider=Later(),
    )
    def draft(self, heard: str) -> str:
        self.state["drafted"] = "yes"
        return ask(f"Draft after <{heard}>")

    @listen("approved")
    def publish(self, seen: Any) -> str:
        return ask(f"Publish <{seen.output}>, drafted: {self.state.get('drafted')}")

    @listen("rejected")
    def drop(self) -> str:
        return ask("Drop")


@persist(STATES)
class KeptFlow(Flow[dict[str, Any]]):
    """Keeps its state after each method."""

    @start()
    def first(self) -> str:
        self.state["first"] = ask("First")
        return "from first"

    @listen(first)
    def second(self, heard: str) -> str:
        self.state["second"] = ask(f"Second after <{heard}> with <{self.state['first']}>")
        return "from second"

    @listen(second)
    def third(self, heard: str) -> str:
        return ask(f"Third after <{heard}> with <{self.state['second']}>")


class CuriousFlow(Flow[dict[str, Any]]):
    """Asks at once: for a word, then for feedback."""

    @start()
    def word(self) -> str:
        return str(self.ask("Which word?"))

    @listen(word)
    @human_feedback(message="What of it?")
    def show(self, heard: str) -> str:
        return f"<{heard}>"

    @listen(show)
    def close(self, seen: Any) -> str:
        return ask(f"Close {seen.output}: {seen.feedback}")
