"""The values of a checkpoint that a person may edit, and the values that a run reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.answer_schema import MAX_OPTIONS
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.input_names import placeholder_names
from viewer.engines.crewai.planning import agent_prompt, roles_mentioning
from viewer.engines.editable import (
    MISSING,
    NO_SCHEMA,
    AnswerOption,
    Editable,
    EditableOutput,
    OpenQuestion,
    Schema,
    StoredValue,
)
from viewer.engines.plan import Action, Edits, Step
from viewer.messages.message import UserMessage
from viewer.validation import shortened

# The only input of an agent that runs without a crew.
PROMPT = "messages"
READ = (Action.KEPT, Action.PINNED)
# The most characters that are shown of a question, and of what it is about.
MAX_PROMPT, MAX_OUTPUT = 2_000, 20_000


def schema(contents: Contents | None, report: Mapping[str, Any]) -> Schema:
    """Returns no schema: each value has the type that it has in the checkpoint."""
    return NO_SCHEMA


def editable(contents: Contents) -> Editable:
    """The inputs, a flow's state without its id, and the outputs of finished tasks."""
    state = contents.flow_state
    if state is not None:
        # The engine finds the flow by its id, so the id must not be edited.
        state = {name: value for name, value in state.items() if name != "id"}
    inputs = None if state is not None else _inputs(contents)
    outputs = tuple(map(_output, _finished(contents.tasks)))
    return Editable(inputs, state, outputs, questions=tuple(_questions(contents)))


def _questions(contents: Contents) -> Iterator[OpenQuestion]:
    """The feedback that a flow's state waits for."""
    asked = contents.feedback
    if asked is None:
        return
    prompt = f"{asked.method}: {asked.message}".removeprefix(": ")
    options = tuple(AnswerOption(one, one) for one in dict.fromkeys(asked.outcomes[:MAX_OPTIONS]))
    output = asked.output if isinstance(asked.output, str | None) else json.dumps(asked.output, indent=2)
    yield OpenQuestion("", shortened(prompt, MAX_PROMPT), options, output=shortened(output or "", MAX_OUTPUT))


def _inputs(contents: Contents) -> dict[str, Any]:
    """The inputs of the run, and ``MISSING`` for placeholders of its tasks that are not among the inputs."""
    if contents.kind == "agent":
        return {PROMPT: _or_missing(agent_prompt(contents))}
    used = [name for task in contents.tasks for name in placeholder_names(task.template)]
    missing = dict.fromkeys((name for name in used if name not in contents.inputs), MISSING)
    return {**contents.inputs, **missing}


def _or_missing(value: Any) -> Any:
    return MISSING if value is None else value


def missing_prompt(contents: Contents, edits: Edits) -> UserMessage | None:
    """Why a lone agent cannot run: neither the checkpoint nor the edits have a prompt. None if it can."""
    if contents.kind == "agent" and agent_prompt(contents) is None and not edits.inputs:
        return UserMessage("edit.prompt_unknown")
    return None


def _finished(tasks: Sequence[Task]) -> Iterator[Task]:
    """The finished tasks that have an id, each id once."""
    seen: set[str] = set()
    for task in tasks:
        if task.done and task.id and task.id not in seen:
            seen.add(task.id)
            yield task


def _output(task: Task) -> EditableOutput:
    return EditableOutput(task.id, task.position, task.title, task.agent, task.output or "", task.output_json)


def values_read(contents: Contents, edits: Edits, steps: Sequence[Step]) -> Iterator[StoredValue]:
    """The values that a run reads from the checkpoint and that no edit replaces."""
    yield from _values(contents, edits)
    kept = {step.unit for step in steps if step.action in READ and step.unit not in edits.outputs}
    for task in contents.tasks:
        if task.id in kept:
            label = UserMessage("edit.stored_task_output", {"position": task.position})
            yield StoredValue(label, [task.output, task.output_json])
    for method in contents.methods:
        if method.done:
            yield StoredValue(UserMessage("edit.stored_method_result", {"name": method.name}), method.output)


def _values(contents: Contents, edits: Edits) -> Iterator[StoredValue]:
    if contents.kind == "agent":
        prompt = agent_prompt(contents)
        if prompt is not None and not edits.inputs:
            yield StoredValue(UserMessage("edit.stored_prompt"), prompt)
        return
    for name, value in contents.inputs.items() if contents.kind == "crew" else ():
        if name not in edits.inputs:
            yield StoredValue(UserMessage("edit.stored_input", {"name": name}), value)
    for name, value in (contents.flow_state or {}).items():
        if name not in (edits.state or {}):
            yield StoredValue(UserMessage("edit.stored_state", {"name": name}), value)


def missing_code(contents: Contents) -> UserMessage | None:
    """What a crew without the project's code would lack; None for a flow or an agent."""
    if contents.kind != "crew":
        return None
    return UserMessage("edit.code_missing")


def former_values(contents: Contents, edits: Edits) -> UserMessage | None:
    """Which agents would use an edited input's former value without the project's code; None if none."""
    if contents.kind != "crew":
        return None
    roles = roles_mentioning(contents, edits.inputs)
    if not roles:
        return None
    return UserMessage("edit.agents_have_former_value", {"roles": ", ".join(roles)})


def kickoff_inputs(contents: Contents, kind: str) -> Mapping[str, Any]:
    """The inputs that a run of this kind was started with, from its first checkpoint."""
    if kind != "agent":
        return contents.inputs
    prompt = agent_prompt(contents)
    return {} if prompt is None else {PROMPT: prompt}
