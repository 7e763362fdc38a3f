"""Flows that take over from PressFlow's first method, and a crew, that do not end well by themselves."""

import os
import signal
import sys
from typing import Any

from crewai import Crew
from crewai.flow.flow import Flow, listen, start
from press_crew import make_crew
from press_flow import PressState, ask
from pydantic import BaseModel, PrivateAttr, model_serializer

# How often writing the state finds it changed meanwhile.
times_left = int(os.environ.get("RESTLESS", "0"))


class Restless(BaseModel):
    """Adds to the dictionary that it stands in while that is being written: the serializer panics."""

    _home: dict[str, Any] = PrivateAttr()

    @model_serializer
    def write(self) -> dict[str, Any]:
        global times_left
        if times_left > 0:
            times_left -= 1
            self._home[f"more {times_left}"] = 1
        return {}


class RestlessState(PressState):
    notes: dict[str, Any] = {}


class RestlessFlow(Flow[RestlessState]):
    @start()
    def outline(self) -> str:
        raise AssertionError("finished already")

    @listen(outline)
    def revise(self) -> str:
        restless = Restless()
        restless._home = self.state.notes
        self.state.notes.update({"first": restless, "second": 1})
        return ask("Stir")

    @listen(revise)
    def publish(self) -> str:
        self.state.notes.clear()
        return ask("Settle")


class LeavingFlow(Flow[PressState]):
    @start()
    def outline(self) -> str:
        raise AssertionError("finished already")

    @listen(outline)
    def leave(self) -> str:
        sys.exit(3)


class DeafFlow(Flow[PressState]):
    """Hears no interrupt."""

    def __init__(self, **values: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().__init__(**values)

    @start()
    def outline(self) -> str:
        raise AssertionError("finished already")

    @listen(outline)
    def wait(self) -> str:
        return ask("Wait")


def refuse_first(output: Any) -> tuple[bool, Any]:
    """A guardrail that accepts no first attempt."""
    global times_left
    times_left -= 1
    return times_left < 0, output if times_left < 0 else "too loud"


def guarded() -> Crew:
    """A crew whose third task is refused RESTLESS times."""
    crew = make_crew()
    tasks = crew.tasks
    tasks[2] = tasks[2].model_copy(update={"guardrail": refuse_first})
    tasks[2]._guardrail = refuse_first
    return crew


def leave(output: Any) -> None:
    sys.exit(3)


def leaving_beside() -> Crew:
    """The third task runs in a separate thread, and leaves the program at its end."""
    crew = make_crew()
    crew.tasks[2].async_execution, crew.tasks[2].callback = True, leave
    return crew
