"""A flow that writes and judges until it is content, as CrewAI's own example of self-evaluation does."""

from typing import Literal

from crewai.flow.flow import Flow, listen, router, start
from press_flow import ask
from pydantic import BaseModel


class LoopState(BaseModel):
    topic: str = "AI"
    rounds: int = 0
    enough: int = 3
    text: str = ""
    verdicts: list[str] = []


class LoopFlow(Flow[LoopState]):
    """Two model calls a round, and one behind the last."""

    @start("retry")
    def write(self) -> str:
        self.state.rounds += 1
        self.state.text = ask(f"Write {self.state.topic}, round {self.state.rounds}, after {self.state.text}")
        return self.state.text

    @router(write)
    def judge(self, text: str) -> Literal["retry", "done"]:
        self.state.verdicts.append(ask(f"Judge <{text}>"))
        return "done" if self.state.rounds >= self.state.enough else "retry"

    @listen("done")
    def publish(self) -> str:
        return ask(f"Publish {self.state.text} of {len(self.state.verdicts)} verdicts")
