"""A poet writes and a critic judges, until the critic is content."""

from pathlib import Path

from crewai.flow.flow import Flow, listen, router, start
from crewai.state.checkpoint_config import CheckpointConfig
from pydantic import BaseModel

from verse_loop.crews.critic.critic import CriticCrew
from verse_loop.crews.poet.poet import PoetCrew


class VerseState(BaseModel):
    subject: str = "rain"
    verse: str = ""
    remarks: str | None = None
    # As many flaws as there were attempts are overlooked.
    attempts: int = 0


class VerseFlow(Flow[VerseState]):
    @start("again")
    def compose(self):
        given = {"subject": self.state.subject, "remarks": self.state.remarks}
        self.state.verse = PoetCrew().crew().kickoff(inputs=given).raw

    @router(compose)
    def judge(self):
        if self.state.attempts > 5:
            return "given_up"
        verdict = CriticCrew().crew().kickoff(inputs={"verse": self.state.verse})
        self.state.attempts += 1
        self.state.remarks = verdict["remarks"]
        return "accepted" if verdict["flaws"] <= self.state.attempts else "again"

    @listen("accepted")
    def save(self):
        Path("verse.txt").write_text(self.state.verse)

    @listen("given_up")
    def give_up(self):
        print("No verse:", self.state.remarks)


def kickoff():
    checkpoints = CheckpointConfig(location=".checkpoints", on_events=["method_execution_finished"])
    VerseFlow(checkpoint=checkpoints).kickoff()


if __name__ == "__main__":
    kickoff()
