"""Reads a person's lines with input(): where the crew is made, in a tool, and in a flow's method."""

import getpass
import sys

from crewai import Crew
from crewai.flow.flow import Flow, listen, start
from press_flow import ask
from press_parts import plain


def crew_of_a_word() -> Crew:
    """Asks for a word before anything else, as a script would."""
    word = input("Which word? ")
    crew = plain()
    crew.tasks[0].description += f", with <{word}>"
    return crew


class WordFlow(Flow[dict[str, str]]):
    """Asks in both of its methods; in the second past the name that libraries replace."""

    @start()
    def first(self) -> str:
        return input("First word? ").upper()

    @listen(first)
    def second(self, heard: str) -> str:
        return ask(
            f"Second after <{heard}> with <{sys.stdin.readline().strip()}>, piped <{sys.stdin.read()}>"
        )


class PasswordFlow(Flow[dict[str, str]]):
    """Asks for what must not be stored."""

    @start()
    def first(self) -> str:
        return getpass.getpass("Key: ")
