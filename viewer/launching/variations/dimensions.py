"""The dimensions of a sweep, parsed from texts. Equal values count once."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.planning.editable import MISSING, EditableOutput, OpenQuestion
from viewer.engines.protocol import Contents
from viewer.launching.requests.option_values import ALL_AGENTS, parse_model
from viewer.launching.requests.requests import Dimension
from viewer.launching.requests.values import (
    ValueKind,
    as_json,
    canonical,
    kind_of,
    normal_line_ends,
    parse_output,
    parse_values,
    same_value,
)
from viewer.redaction.marker import MARKER


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
    values = [_json_or_text(value) for value in parse_values(text, ValueKind.TEXT)]
    return Dimension("answer", question.id, question.prompt, _distinct(values))


def _json_or_text(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _distinct(values: Iterable[Any]) -> list[Any]:
    """The values, equal ones once."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
    return list(found.values())


def editing_kind(stored: Any) -> ValueKind:
    """The kind of a typed value: that of the stored value, or text if it is missing or redacted."""
    return ValueKind.TEXT if stored is MISSING or stored == MARKER else kind_of(stored)


def output_text(output: EditableOutput) -> str:
    """The output as the text of its editor."""
    return output.text if output.value is None else as_json(output.value)


def output_label(unit: str, output: EditableOutput) -> str:
    """The label of an output, by the position of its unit. ``unit`` is the root kind's ``unit_label``."""
    return _("output of %(unit)s %(position)d") % {"unit": _(unit), "position": output.position}


def edited_output(output: EditableOutput, text: str) -> Any:
    """The edit of an output, None if it is the stored one. Raises InvalidValue."""
    if normal_line_ends(text) == normal_line_ends(output_text(output)):
        return None
    value = parse_output(text, output.value)
    if output.value is not None and same_value(value["json"], output.value):
        return None
    return value


def output_dimension(
    label: str, output: EditableOutput, texts: Iterable[str], keeps_stored: bool
) -> Dimension:
    """The output of a finished unit. ``keeps_stored`` adds the stored one. Raises InvalidValue."""
    values = _distinct(edited_output(output, text) for text in texts)
    if keeps_stored and values and None not in values:
        values.insert(0, None)
    return Dimension("output", output.unit, label, values)


def model_dimension(role: str, names: Iterable[str]) -> Dimension:
    """The model of a role, or of all agents. Raises InvalidValue."""
    label = _("model") if role == ALL_AGENTS else role
    models = [parse_model(name.strip()) for name in names if name.strip()]
    return Dimension("model", role, label, list(dict.fromkeys(models)))
