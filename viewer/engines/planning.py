"""The plan of a fork or resume as a whole: its steps, what it leaves open and what the previous run used."""

from dataclasses import dataclass, field, replace
from typing import Any

from viewer.engines import engine_of
from viewer.engines.plan import EditRefused, Edits, Outlook, Step
from viewer.messages.message import UserMessage
from viewer.stores.model_calls import ModelUsage, usage_by_model


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fork or resume with these ``edits`` would do.

    If an edit is ``refused``, the steps are those without it, so that a person can undo a choice.
    ``missing_prompt`` says why a person has to type one. ``usage`` is that of the previous run, by model.
    """

    edits: Edits
    steps: list[Step]
    outlook: Outlook
    refused: UserMessage | None = None
    missing_prompt: UserMessage | None = None
    usage: list[ModelUsage] = field(default_factory=list)


def plan_of(
    contents: Any,
    edits: Edits,
    furthest: Any = None,
    source: Any = None,
    *,
    is_fork: bool = True,
    again_stale: bool = False,
) -> Plan:
    """The plan of these edits of a checkpoint with these contents.

    The usage is estimated from ``furthest``, the run's furthest checkpoint. ``source`` is what the engine
    read in the entry point's source. With ``again_stale``, all stale steps run again.
    """
    engine, refused = engine_of(contents), None
    try:
        steps = engine.plan(contents, edits, source, is_fork=is_fork)
    except EditRefused as error:
        refused = error.message
        without = Edits(edits.inputs, again=edits.again, keep=edits.keep - edits.again)
        try:
            steps = engine.plan(contents, without)
        except EditRefused:
            steps = []
    if again_stale and (stale := {step.unit for step in steps if step.stale}):
        again = edits.again | stale
        edits = replace(edits, again=again, keep=edits.keep - again)
        return plan_of(contents, edits, furthest, source, is_fork=is_fork)
    usage = usage_by_model(engine.previous_calls(contents, furthest, steps))
    missing = engine.missing_prompt(contents, edits)
    return Plan(edits, steps, engine.outlook(contents, source), refused, missing, usage)
