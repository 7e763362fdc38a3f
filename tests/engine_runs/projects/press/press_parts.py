"""A plain crew of four, and the same crew with the parts of which a checkpoint keeps none or little."""

import os
from pathlib import Path
from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from crewai.utilities.converter import Converter
from press_crew import Archive, Fact

TEXTS = ("Collect {topic} in {year}, {tags}", "Check {topic}", "Write about {topic}", "Title for {topic}")


def trace(words: str) -> None:
    """Leave a mark that this part was called."""
    if "PRESS_TRACE" in os.environ:
        with Path(os.environ["PRESS_TRACE"]).open("a") as file:
            file.write(words + "\n")


def model(**settings: Any) -> LLM:
    return LLM(model="openai/gpt-4o-mini", **settings)


def plain(**last: Any) -> Crew:
    """Four tasks, the last of which reads the first alone; ``last`` are settings of the third."""
    researcher = Agent(role="Researcher of {topic}", goal="Know {topic}", backstory="Curious", llm=model())
    writer = Agent(role="Writer", goal="Write for {year}", backstory="Terse", llm=model())
    collect = Task(description=TEXTS[0], expected_output="notes", agent=researcher)
    check = Task(description=TEXTS[1], expected_output="a word", agent=researcher)
    write = Task(description=TEXTS[2], expected_output="an article", agent=writer, **last)
    title = Task(description=TEXTS[3], expected_output="a title of {year}", agent=writer, context=[collect])
    return Crew(name="press", agents=[researcher, writer], tasks=[collect, check, write, title])


@tool
def count_words(text: str) -> str:
    """Counts words."""
    trace(f"function tool {text}")
    return "three words"


class Marking(Archive):
    name: str = "mark_archive"

    def _run(self, words: str) -> str:
        trace(f"class tool {words}")
        return "nothing"


class Killing(Archive):
    name: str = "kill_archive"

    def _run(self, words: str) -> str:
        os.kill(os.getpid(), 9)
        return "never"


def with_class_tool() -> Crew:
    return plain(tools=[Marking()])


def with_function_tool() -> Crew:
    return plain(tools=[count_words])


def with_killing_tool() -> Crew:
    return plain(tools=[Killing()])


def checked(output: Any) -> tuple[bool, Any]:
    trace("guardrail")
    return True, output


def task_done(output: Any) -> None:
    trace("task callback")


def every_task_done(output: Any) -> None:
    trace("crew's task callback")


def step_done(output: Any) -> None:
    trace("step callback")


def with_callbacks() -> Crew:
    crew = plain(guardrail=checked, callback=task_done, tools=[Marking()])
    crew.task_callback, crew.step_callback = every_task_done, step_done
    return crew


def leave(output: Any) -> None:
    raise SystemExit(4)


def with_exit() -> Crew:
    return plain(callback=leave)


class OwnModel(BaseLLM):
    """Somebody's own way to a model."""

    def call(self, messages: Any, *rest: Any, **named: Any) -> Any:
        trace("own model")
        return model().call(messages)


def with_own_model() -> Crew:
    crew = plain()
    crew.agents[1].llm = OwnModel(model="own")
    return crew


class SilentModel(BaseLLM):
    """A model that the engine does not hear of."""

    def call(self, messages: Any, *rest: Any, **named: Any) -> Any:
        return "silent"


def with_silent_model() -> Crew:
    crew = plain()
    crew.agents[1].llm = SilentModel(model="silent")
    return crew


def impatient() -> Crew:
    crew = plain()
    crew.agents[1].llm = model(timeout=0.5, max_retries=0)
    return crew


def with_json() -> Crew:
    crew = plain(callback=lambda _: trace(f"json {crew.tasks[1].output.json_dict}"))
    crew.tasks[1].output_json = Fact
    return crew


def with_pydantic() -> Crew:
    crew = plain(callback=lambda _: trace(f"pydantic {crew.tasks[1].output.pydantic!r}"))
    crew.tasks[1].output_pydantic = Fact
    return crew


class OwnConverter(Converter):
    """Somebody's own way to an output in JSON."""


def with_converter() -> Crew:
    return plain(callback=lambda _: trace("lambda"), output_json=Fact, converter_cls=OwnConverter)
