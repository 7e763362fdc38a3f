"""The variations of a sweep: each combination of its dimensions' values, with its branch and plan."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from django.utils.text import slugify
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.editable import MISSING, EditableOutput, OpenQuestion, RunSettings
from viewer.engines.plan import Edits
from viewer.engines.planning import plan_of
from viewer.engines.protocol import Contents, kind_of
from viewer.host_requests import ask
from viewer.launching.edits import ValueKind, canonical, decoded, parse_output, parse_values, same_value
from viewer.launching.edits import kind_of as value_kind_of
from viewer.launching.options import ALL_AGENTS, parse_model
from viewer.launching.preview import PlanPreview
from viewer.launching.requests import Dimension, SweepRequest, redacted
from viewer.redaction import MARKER
from viewer.redaction.values import redact

# The dimensions of a sweep, parsed from texts. Equal values count once.


def dimension_values(contents: Contents) -> tuple[str, Mapping[str, Any]]:
    """The group of values that a sweep can vary, input or state, and the stored ones by name."""
    editable = engine_of(contents).editable(contents)
    if editable.inputs is not None:
        return "input", editable.inputs
    return "state", editable.state or {}


def value_dimension(group: str, name: str, stored: Any, text: str) -> Dimension:
    """An input, or an entry of the state. Raises InvalidValue."""
    return Dimension(group, name, name, _distinct(parse_values(text, editing_kind(stored))))


def setting_dimension(group: str, name: str, kind: ValueKind, text: str) -> Dimension:
    """A configurable value, or one of the context. Raises InvalidValue."""
    return Dimension(group, name, name, _distinct(parse_values(text, kind)))


def answer_dimension(question: OpenQuestion, text: str) -> Dimension:
    """The answers to a checkpoint's interrupt. Answers that are JSON are parsed. Raises InvalidValue."""
    values = [decoded(value) for value in parse_values(text, ValueKind.TEXT)]
    return Dimension("answer", question.id, question.prompt, _distinct(values))


def _distinct(values: Iterable[Any]) -> list[Any]:
    """The values, equal ones once."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
    return list(found.values())


def editing_kind(stored: Any) -> ValueKind:
    """The kind of a typed value: that of the stored value, or text if it is missing or redacted."""
    return ValueKind.TEXT if stored is MISSING or stored == MARKER else value_kind_of(stored)


def output_label(unit: str, output: EditableOutput) -> str:
    """The label of an output, by the position of its unit. ``unit`` is the root kind's ``unit_label``."""
    return _("output of %(unit)s %(position)d") % {"unit": _(unit), "position": output.position}


def output_dimension(
    label: str, output: EditableOutput, texts: Iterable[str], keeps_stored: bool
) -> Dimension:
    """The output of a finished unit. ``keeps_stored`` adds the stored one. Raises InvalidValue."""
    values = _distinct(parse_output(output, text) for text in texts)
    if keeps_stored and values and None not in values:
        values.insert(0, None)
    return Dimension("output", output.unit, label, values)


def model_dimension(role: str, names: Iterable[str]) -> Dimension:
    """The model of a role, or of all agents. Raises InvalidValue."""
    label = _("model") if role == ALL_AGENTS else role
    models = [parse_model(name.strip()) for name in names if name.strip()]
    return Dimension("model", role, label, list(dict.fromkeys(models)))


# The variations of a sweep: each combination of its dimensions' values, with its branch and plan.


MAX_VARIATIONS = 20
MAX_LABEL = 60
MAX_BRANCH_PART = 30


@dataclass(slots=True)
class Variation:
    """One fork of a sweep. ``label`` says which values it has."""

    number: int
    label: str
    branch: str
    models: dict[str, str]
    settings: RunSettings
    plan: PlanPreview
    branch_error: str = ""

    @property
    def edits(self) -> Edits:
        return self.plan.plan.edits


def variation_count(dimensions: Sequence[Dimension]) -> int:
    """The number of combinations of these dimensions' values."""
    return prod(len(one.values) for one in dimensions) if dimensions else 0


def variations_of(request: SweepRequest) -> Iterator[Variation]:
    """Yield the variation of each combination."""
    branches: set[str] = set()
    source = ask(request.source, host=request.source_host) if request.folder else None
    contents, dimensions = request.contents, request.dimensions
    combinations = product(*(one.values for one in dimensions))
    shown_combinations = product(*_shown_values(request))
    for number, (combination, shown) in enumerate(zip(combinations, shown_combinations, strict=True), 1):
        pairs = list(zip(dimensions, combination, strict=True))
        edits, models = edits_of_values(pairs, contents, request.as_node)
        plan = plan_of(contents, edits, request.furthest, source, again_stale=request.again_stale)
        varied = [value for one, value in zip(dimensions, shown, strict=True) if len(one.values) > 1]
        branch = _branch(request.prefix, varied, number, branches)
        branches.add(branch)
        named = zip(dimensions, shown, strict=True)
        label = ", ".join(f"{one.label}: {short_value(value)}" for one, value in named)
        settings = _settings_of(pairs, request.settings)
        yield Variation(number, label, branch, models, settings, PlanPreview(contents, plan))


def _shown_values(request: SweepRequest) -> Sequence[Sequence[Any]]:
    """The values of each dimension without secrets, also those of the project.

    All of them are redacted while the project's host, which alone knows its secrets, does not answer.
    """
    values = [[redacted_value(one, value) for value in one.values] for one in request.dimensions]
    shown: list[list[Any]] | None = redacted(values, request.project)
    return shown or [[MARKER] * len(one) for one in values]


def _settings_of(pairs: Sequence[tuple[Dimension, Any]], common: RunSettings) -> RunSettings:
    """The settings of a combination: the common ones, and its own values."""
    values: dict[str, dict[str, Any]] = {"configurable": {}, "context": {}}
    for one, value in pairs:
        if one.group in values:
            values[one.group][one.key] = value
    return replace(
        common,
        configurable={**common.configurable, **values["configurable"]},
        context={**common.context, **values["context"]},
    )


def edits_of_values(
    pairs: Sequence[tuple[Dimension, Any]], contents: Contents, as_node: str = ""
) -> tuple[Edits, dict[str, str]]:
    """The edits and models of a combination. A value equal to the stored one is no edit."""
    inputs: dict[str, Any] = {}
    state: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    models: dict[str, str] = {}
    answers: dict[str, Any] = {}
    stored_state = engine_of(contents).editable(contents).state or {}
    for one, value in pairs:
        if one.group == "model":
            models[one.key] = value
        elif one.group == "answer":
            answers[one.key] = value
        elif one.group == "output":
            if value is not None:
                outputs[one.key] = value
        elif one.group in ("input", "state"):
            stored = contents.inputs if one.group == "input" else stored_state
            if one.key not in stored or not same_value(value, stored[one.key]):
                (inputs if one.group == "input" else state)[one.key] = value
    # The typed value replaces the stored one, even where a reducer would add it.
    adds = kind_of(engine_of(contents), contents.kind).adds_to_state
    edits = Edits(
        inputs=inputs,
        outputs=outputs,
        state=state or None,
        replace=frozenset(state if adds else ()),
        as_node=as_node,
        answers=answers,
    )
    return edits, models


def redacted_value(one: Dimension, value: Any) -> Any:
    """The value with its secrets redacted, for the job's row and the branch name."""
    named = one.group in ("input", "state", "configurable", "context")
    return redact({one.key: value})[one.key] if named else redact(value)


def short_value(value: Any) -> str:
    """The value on one line of at most ``MAX_LABEL`` characters."""
    if value is None:
        return _("unchanged")
    if isinstance(value, dict) and set(value) == {"json"}:
        value = value["json"]
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _branch(prefix: str, values: Sequence[Any], number: int, taken: Collection[str]) -> str:
    """A branch name of the prefix and the combination's values, or its number."""
    # Engines may interpret "_p-" in a branch name, so underscores are replaced.
    texts = ["" if MARKER in short_value(value) else short_value(value) for value in values]
    parts = [slugify(text, allow_unicode=True).replace("_", "-") for text in texts]
    distinction = ".".join(part[:MAX_BRANCH_PART].strip("-") for part in parts if part.strip("-"))
    name = f"{prefix}/{distinction or number}"
    return name if name not in taken else f"{name}-{number}"
