"""What a person may change before a run of any engine, and the plan of a fork or resume with these edits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from viewer.engines.entry_points import InputName
from viewer.messages.message import UserFacingError, UserMessage
from viewer.stores.protocol import ModelUsage

# What a run is made of: the entries of its state, its units, and the values that its code reads.


# The names of the reducers that replace and remove messages by their ids.
MERGES_BY_ID = ("add_messages", "_add_messages", "add_messages_delta")


@dataclass(frozen=True, slots=True)
class StateEntry:
    """An entry of the state.

    ``kind`` is the type of its values, None if unknown. ``reducer`` names the function that adds a write to
    the entry; it is empty if a write replaces the entry, and None if that is unknown.
    """

    kind: type | None = None
    reducer: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """What a run is made of. A run can stop at ``units``, and an edited state can be attributed to them.

    ``is_inferred`` is true if the schema comes from a checkpoint instead of the project's code.
    """

    entries: Mapping[str, StateEntry] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    configurable: tuple[InputName, ...] = ()
    context: tuple[InputName, ...] = ()
    is_inferred: bool = True

    @property
    def digest(self) -> str:
        """A hash that identifies the schema. A form contains that of the schema it was made with."""
        return sha256(repr(self).encode()).hexdigest()[:16]

    def merges_by_id(self, name: str) -> bool:
        """Whether the reducer of this entry replaces and removes messages by their ids."""
        entry = self.entries.get(name)
        return bool(entry and entry.reducer and entry.reducer.rpartition(".")[2] in MERGES_BY_ID)


NO_SCHEMA = Schema()


# The settings of a run besides its input: where it stops, and the values that configure its code.


@dataclass(frozen=True, slots=True)
class RunSettings:
    """``stop_before`` and ``stop_after`` name the units at which a run stops; ``*`` is every unit.

    ``configurable`` and ``context`` are values for the project's code. They may be secrets.
    """

    stop_before: tuple[str, ...] = ()
    stop_after: tuple[str, ...] = ()
    configurable: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything was chosen."""
        return bool(self.stop_before or self.stop_after or self.configurable or self.context)


NO_SETTINGS = RunSettings()


# What a checkpoint holds that a person may change before a fork, and what a run reads unchanged.


class Missing:
    """The type of ``MISSING``."""


# The value of a field that the checkpoint does not have.
MISSING = Missing()


@dataclass(frozen=True, slots=True)
class EditableOutput:
    """The output of a finished unit, which a person may replace.

    ``value`` is the output as a JSON value; None if the output is a text.
    """

    unit: str
    position: int
    title: str
    agent: str
    text: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class EditableMessage:
    """A message of a conversation, at its ``position`` in the entry. ``id`` is empty if it has none.

    ``content`` is a text, or a list of parts. ``calls`` are the tool calls that the message requests, as JSON
    values, and ``answers_call`` is the id of the tool call that the message answers.
    """

    position: int
    id: str
    role: str
    name: str
    content: Any
    calls: Sequence[Any] = ()
    answers_call: str = ""


@dataclass(frozen=True, slots=True)
class MessageEdit:
    """An edited or removed message at ``position``, or a new message if ``position`` is None.

    ``before`` is the position of the stored message that a new message precedes; None adds it at the end.
    """

    position: int | None
    role: str = ""
    content: Any = ""
    calls: Sequence[Any] = ()
    answers_call: str = ""
    is_removed: bool = False
    before: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A part of an answer that a person types. ``path`` holds the keys and indexes that lead to it.

    ``kind`` is the value of a ``ValueKind`` (launching.edits). ``choices`` are its only possible values,
    empty if any is possible.
    """

    path: tuple[str | int, ...]
    label: str
    kind: str = "text"
    choices: tuple[Any, ...] = ()
    stored: Any = MISSING
    is_required: bool = False
    help: str = ""


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """An answer that a question suggests: ``value``, completed by what a person types into ``fields``.

    ``effect`` is an English sentence on what the answer does; empty if that is not known.
    """

    label: str
    value: Any
    fields: tuple[AnswerField, ...] = ()
    effect: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether this is an answer if the person types nothing."""
        return not any(field.is_required or field.stored is not MISSING for field in self.fields)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """What a checkpoint or a run waits for. ``id`` is empty if the engine does not give questions ids."""

    id: str
    prompt: str
    # The answers that the question suggests, if any. No two have the same label.
    options: tuple[AnswerOption, ...] = ()
    # The JSON schema of the answer, if the question has one (``engines.answer_schema``).
    schema: Mapping[str, Any] | None = None
    # What the answer is about, as text.
    output: str = ""


@dataclass(frozen=True, slots=True)
class Editable:
    """What a person may change before a fork. ``inputs`` and ``state`` are None if they cannot be edited.

    A value that the checkpoint does not hold is ``MISSING``.
    """

    inputs: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    outputs: tuple[EditableOutput, ...] = ()
    # The entries of the state whose value cannot be edited.
    opaque: tuple[str, ...] = ()
    # The units that an edited state can be attributed to.
    as_nodes: tuple[str, ...] = ()
    # The questions that the checkpoint waits for. A fork can answer them.
    questions: tuple[OpenQuestion, ...] = ()
    # The entries of the state that are lists of messages.
    conversations: Mapping[str, tuple[EditableMessage, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value of a checkpoint that a run reads, and its label for a person."""

    label: UserMessage
    value: Any


# The steps, and what a person changed.


class Action(StrEnum):
    """What happens to one step."""

    KEPT = "kept"  # finished, its output is used as it is
    EDITED = "edited"  # finished, the person's text is its output
    PINNED = "pinned"  # finished, and kept by the person although a step before it runs again
    AGAIN = "again"  # finished, but runs again
    RUNS = "runs"  # had not run yet
    MAY = "may"  # has not run, and will if a decision of the run leads to it


class Reason(StrEnum):
    """Why an action happens to a step. ``viewer/launching/labels.py`` has the labels."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    PASSED_OVER = "passed_over"
    EDITED = "edited"
    HELD = "held"
    READS_EDITED = "reads_edited"
    BEHIND_RERUN = "behind_rerun"
    REQUESTED = "requested"
    STALE_INPUT = "stale_input"
    TRIGGERED = "triggered"
    MAY_REPEAT = "may_repeat"
    ROUTED = "routed"
    CONDITION = "condition"
    RUNS_AGAIN = "runs_again"
    STARTS_OVER = "starts_over"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of work of a checkpoint. A step of the engine may have several."""

    id: str
    title: str
    agent: str = ""
    done: bool = False
    # The text with its {placeholders}, which show whether the unit uses a changed input.
    template: str = ""
    # Inputs that its prompt uses without a placeholder in ``template``, such as one in the agent's role.
    uses: frozenset[str] = frozenset()
    # The number of times that it has finished.
    count: int = 0
    # Whether it runs beside the units of this kind around it, and reads none of them.
    runs_beside: bool = False
    # Whether a condition, which only the run evaluates, decides that it runs.
    is_conditional: bool = False


@dataclass(frozen=True, slots=True)
class Edits:
    """What a person changed. ``outputs`` are by unit id; ``again`` and ``keep`` are unit ids.

    If reducers add writes to the state, ``replace`` names the entries whose edited value replaces the stored
    one, and ``as_node`` the unit that the edited state is attributed to. ``answers`` are by the id of the
    question that the checkpoint waits for; the id may be empty if there is only one question.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    again: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    replace: frozenset[str] = frozenset()
    as_node: str = ""
    answers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan. ``stale`` names the changed inputs whose former values a kept output used."""

    unit: str
    position: int
    title: str
    agent: str
    action: Action
    reason: Reason
    stale: tuple[str, ...] = ()


def plain_steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The steps as plain values, for a job's row and the terminal's JSON."""
    return [{**asdict(step), "stale": list(step.stale)} for step in steps]


def steps_in(plan: Iterable[Mapping[str, Any]]) -> list[Step]:
    """The steps of a job's row."""
    return [
        Step(
            **{
                **step,
                "action": Action(step["action"]),
                "reason": Reason(step["reason"]),
                "stale": tuple(step["stale"]),
            }
        )
        for step in plan
    ]


class EditRefused(UserFacingError):
    """The engine cannot apply an edit. The message names the edit and says what to do."""


# What a plan leaves open.


@dataclass(frozen=True, slots=True)
class Route:
    """One outcome of a decision. ``units`` are the titles of the units that follow; empty if none does."""

    label: str
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that the run makes. ``is_open`` is true if it may have an outcome that ``routes`` lacks."""

    router: str
    routes: tuple[Route, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan leaves open: ``decisions``, and ``notes`` that a person reads before the start."""

    decisions: tuple[Decision, ...] = ()
    notes: tuple[UserMessage, ...] = ()


# The plan as a whole.


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
