"""The digest flow: outline a topic, choose a length, write, publish."""

from crewai.flow import Flow, listen, or_, router, start
from pydantic import BaseModel

from newsroom.crew import model


class DigestState(BaseModel):
    topic: str = "AI checkpoints"
    year: int = 2026
    readers: list[str] = ["engineers", "editors"]
    outline: str = ""
    digest: str = ""
    published: bool = False


class DigestFlow(Flow[DigestState]):
    """A digest for each kind of reader, short where few read it."""

    @start()
    def write_outline(self) -> str:
        asked = f"Current Task: Outline a digest about {self.state.topic}, for {self.state.year}"
        self.state.outline = str(model().call(asked))
        return self.state.outline

    @router(write_outline)
    def choose_length(self) -> str:
        return "long" if len(self.state.readers) > 1 else "short"

    @listen("long")
    def write_long(self) -> str:
        return self._write("a sentence for each point")

    @listen("short")
    def write_short(self) -> str:
        return self._write("one sentence")

    @listen(or_(write_long, write_short))
    def publish(self) -> str:
        self.state.published = True
        return f"For {' and '.join(self.state.readers)}: {self.state.digest}"

    def _write(self, length: str) -> str:
        asked = (
            f"Current Task: Write a digest about {self.state.topic}, {length}\n\n"
            f"This is the context you're working with:\n{self.state.outline}"
        )
        self.state.digest = str(model().call(asked))
        return self.state.digest
