"""A flow: a typed state, a router, and listeners that are handed results."""

from crewai import LLM
from crewai.flow.flow import Flow, listen, router, start
from pydantic import BaseModel


class PressState(BaseModel):
    topic: str = "AI"
    year: int = 2026
    outline: str = ""


class PressFlow(Flow[PressState]):
    @start()
    def outline(self) -> str:
        self.state.outline = ask(f"Outline {self.state.topic}")
        return f"outline of {self.state.topic}"

    @router(outline)
    def length(self, outlined: str) -> str:
        return "long" if self.state.year > 2000 else "short"

    @listen("long")
    def write_long(self) -> str:
        return ask(f"Write {self.state.topic} from {self.state.outline}")

    @listen("short")
    def write_short(self) -> str:
        return ask("Write briefly")

    @listen(outline)
    def announce(self, outlined: str) -> str:
        return ask(f"Announce <{outlined}>")

    @listen(write_long)
    def publish(self, text: str) -> str:
        return ask(f"Publish <{text}> in {self.state.year}")


def ask(question: str) -> str:
    return str(LLM(model="openai/gpt-4o-mini").call(question))
