"""The JSON schema that a question gives for its answer: the form that it asks for, and what fits it.

The schema is from a checkpoint. So nothing is fetched, patterns are matched in linear time, and a check ends
after a number of steps. What cannot be checked is left to the graph, which checks its answers itself.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, time
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import re2

from viewer.engines.plan import MISSING, AnswerField, AnswerOption
from viewer.messages.catalog import gettext_noop as _
from viewer.messages.message import UserFacingError

MAX_OPTIONS, MAX_FIELDS, MAX_CHOICES = 20, 40, 500
# The most references that lead to one schema, and levels of objects whose fields are shown one by one.
MAX_HOPS, MAX_LEVELS = 20, 4
# The steps of one check, the errors of which the best is found, and the longest value that a message shows.
MAX_STEPS, MAX_ERRORS, MAX_SHOWN = 10_000, 50, 300
# jsonschema copies the whole value into each error. This many characters of it count as one step.
CHARACTERS_OF_A_STEP = 200
# The kind of value for each type of a JSON schema. Others are typed as JSON.
KINDS = {"string": "text", "integer": "whole_number", "number": "number", "boolean": "yes_no"}
FORMATS = ("date", "email", "ipv4", "ipv6", "uuid")

Schema = Mapping[str, Any]


class AnswerInvalid(UserFacingError, ValueError):
    """The answer does not fit its schema. ``path`` leads to the wrong part."""

    path: tuple[str | int, ...] = ()


def parse_answer(text: str, schema: Schema) -> Any:
    """The answer that a text is: what its JSON says, or the text, whichever fits. Raises AnswerInvalid."""
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        check_answer(text, schema)
        return text
    if (wrong := _problem(decoded, schema)) is None:
        return decoded
    is_other_type = not wrong.path and wrong.message.code == "answers.type"
    if isinstance(decoded, dict | list) and not is_other_type:
        raise wrong
    if (wrong_text := _problem(text, schema)) is None:
        return text
    # If it has to be a text, what is wrong with the text.
    raise wrong_text if is_other_type else wrong


def as_text(answer: Any) -> str:
    """The text that a runner reads as this answer."""
    if isinstance(answer, str):
        try:
            json.loads(answer)
        except (ValueError, RecursionError):
            return answer
    return json.dumps(answer, ensure_ascii=False)


def fits(answer: Any, schema: Schema) -> bool:
    """Whether the answer fits, as far as that can be checked."""
    return _problem(answer, schema) is None


def check_answer(answer: Any, schema: Schema) -> None:
    """Raise AnswerInvalid if the answer does not fit."""
    if problem := _problem(answer, schema):
        raise problem


def _problem(answer: Any, schema: Schema) -> AnswerInvalid | None:
    from jsonschema.exceptions import best_match

    try:
        size = len(answer if isinstance(answer, str) else json.dumps(answer))
        error = best_match(islice(_validator(schema, size).iter_errors(answer), MAX_ERRORS))
    except Exception:
        # The schema is of anyone: it may be invalid in many ways, or take too many steps.
        return None
    if error is None:
        return None
    path, wanted = list(error.absolute_path), error.validator_value
    if error.validator == "type":
        names = wanted if isinstance(wanted, list) else [wanted]
        why = AnswerInvalid("answers.type", type=", ".join(map(str, names)))
    elif error.validator in ("enum", "const"):
        values = wanted if isinstance(wanted, list) and error.validator == "enum" else [wanted]
        why = AnswerInvalid("answers.one_of", values=_shown(", ".join(map(_text, values))))
    elif error.validator == "required" and isinstance(error.instance, dict) and isinstance(wanted, list):
        missing = [str(name) for name in wanted if name not in error.instance]
        path, why = [*path, *missing[:1]], AnswerInvalid("answers.missing")
    else:
        why = AnswerInvalid("answers.does_not_fit", why=_shown(error.message))
    place = ".".join(map(str, path))
    found = AnswerInvalid("answers.at_place", place=_shown(place), why=why.message) if place else why
    found.path = tuple(path)
    return found


class _TooManySteps(Exception):
    """A check takes too long."""


def _validator(schema: Schema, size: int) -> Any:
    """A validator of values with ``size`` characters. It counts its steps, and fetches nothing."""
    from jsonschema import Draft202012Validator, FormatChecker, validators
    from referencing import Registry

    base = validators.validator_for(schema, default=Draft202012Validator)
    steps = 0

    def count(more: int) -> None:
        nonlocal steps
        steps += more
        if steps > MAX_STEPS:
            raise _TooManySteps

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def counting(validator: Any, wanted: Any, value: Any, whole: Any) -> Iterator[Any]:
            count(1 + (len(wanted) if isinstance(wanted, dict | list) else 0))
            if check in lists and not isinstance(wanted, list):
                # It is invalid, and would refuse every answer.
                return
            for error in check(validator, wanted, value, whole) or ():
                if not isinstance(error.validator, str):
                    # It is of this check, not of a part of the schema.
                    count(size // CHARACTERS_OF_A_STEP)
                yield error

        return counting

    checks = {name: _SAFE_CHECKS.get(name) or check for name, check in base.VALIDATORS.items()}
    lists = [check for name in ("required", "enum") if (check := checks.get(name))]
    made = validators.extend(base, {name: counted(check) for name, check in checks.items() if check})
    formats = FormatChecker(FORMATS)
    formats.checks("date-time", ValueError)(lambda value: _is_iso(datetime, value))
    formats.checks("time", ValueError)(lambda value: _is_iso(time, value))
    return made(_without_dialect(schema), registry=Registry(), format_checker=formats)


def _without_dialect(schema: Schema) -> dict[str, Any]:
    """The schema without its ``$schema``. Raises ValueError if a part of it names one.

    The package validates a part with a ``$schema`` with its own class, which counts no steps and matches
    patterns with ``re``. A reference to the whole schema is such a part, too.
    """
    whole = {name: value for name, value in schema.items() if name != "$schema"}
    todo: list[Any] = [whole]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if isinstance(part.get("$schema"), str):
                raise ValueError(part["$schema"])
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return whole


def _is_iso(kind: type[datetime] | type[time], value: object) -> bool:
    return not isinstance(value, str) or bool(kind.fromisoformat(value))


def _pattern(validator: Any, wanted: Any, value: Any, whole: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(value, str) and _matches(wanted, value) is False:
        yield ValidationError(f"{_text(value)} does not match {_text(wanted)}")


def _pattern_properties(validator: Any, wanted: Any, value: Any, whole: Any) -> Iterator[Any]:
    for expression, inner in wanted.items() if isinstance(value, dict) else ():
        for name, item in value.items():
            if _matches(expression, name):
                yield from validator.descend(item, inner, path=name, schema_path=expression)


def _additional_properties(validator: Any, wanted: Any, value: Any, whole: Any) -> Iterator[Any]:
    from jsonschema import Draft202012Validator

    if isinstance(value, dict) and (patterns := whole.get("patternProperties")):
        # A pattern that cannot be matched may be of any name.
        value = {
            name: one
            for name, one in value.items()
            if all(_matches(expression, name) is False for expression in patterns)
        }
        whole = {name: one for name, one in whole.items() if name != "patternProperties"}
    check = Draft202012Validator.VALIDATORS["additionalProperties"]
    yield from check(validator, wanted, value, whole) or ()


def _unique_items(validator: Any, wanted: Any, value: Any, whole: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    is_list = bool(wanted) and isinstance(value, list)
    if is_list and len({json.dumps(one, sort_keys=True) for one in value}) < len(value):
        yield ValidationError(f"{_text(value)} has equal items")


def _unchecked(*arguments: Any) -> Iterator[Any]:
    return iter(())


# Instead of checks that match patterns in exponential time, or compare all items with each other.
_SAFE_CHECKS: dict[str, Callable[..., Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "unevaluatedProperties": _unchecked,
    "unevaluatedItems": _unchecked,
}


def _matches(expression: Any, text: str) -> bool | None:
    """Whether a text has a match; None for a pattern that cannot be matched in linear time."""
    compiled = _compiled(expression) if isinstance(expression, str) else None
    return None if compiled is None else compiled.search(text) is not None


@lru_cache(256)
def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error:
        return None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def options_of(schema: Schema) -> list[AnswerOption]:
    """The forms of answers that fit a schema: one for each of its variants, or for each of its values.

    Empty if the schema says too little, or has too many fields.
    """
    found, is_nullable = _resolved(schema, schema)
    variants = _variants(found, schema)
    options = list(chain.from_iterable(_options(one, schema) for one in variants or [found]))
    if is_nullable and options:
        options.append(AnswerOption(_("No value"), None))
    return list(_numbered(options[:MAX_OPTIONS]))


def _options(found: Schema, whole: Schema) -> list[AnswerOption]:
    title = str(found.get("title") or _("form"))
    values = found.get("enum") if isinstance(found.get("enum"), list) else None
    if "const" in found:
        values = [found["const"]]
    if values and len(values) <= MAX_OPTIONS:
        return [AnswerOption(one if isinstance(one, str) else _text(one), one) for one in values]
    if found.get("type") == "boolean":
        return [AnswerOption(_("Yes"), True), AnswerOption(_("No"), False)]
    if _is_object(found):
        value, fields = _parts(found, whole, (), 0)
        return [AnswerOption(title, value, tuple(fields))] if len(fields) <= MAX_FIELDS else []
    if values or found.get("type") in (*KINDS, "array"):
        return [AnswerOption(title, None, (_field((), found, False, True),))]
    return []


def _numbered(options: Sequence[AnswerOption]) -> Iterator[AnswerOption]:
    """The options, each with a label of its own."""
    labels: set[str] = set()
    for option in options:
        label, number = option.label, 1
        while label in labels:
            number += 1
            label = f"{option.label} {number}"
        labels.add(label)
        yield AnswerOption(label, option.value, option.fields, option.effect)


def _variants(found: Schema, whole: Schema) -> list[Schema]:
    several = [_resolved(one, whole)[0] for name in ("oneOf", "anyOf") for one in _list(found.get(name))]
    return several if len(several) > 1 else []


def _parts(
    found: Schema, whole: Schema, path: tuple[str | int, ...], level: int
) -> tuple[dict[str, Any], list[AnswerField]]:
    """The fixed part of an object, and the fields of its other parts."""
    fixed: dict[str, Any] = {}
    fields: list[AnswerField] = []
    required = _list(found.get("required"))
    for name, one in found["properties"].items():
        inner, is_nullable = _resolved(one, whole)
        needed, at = name in required, (*path, name)
        if "const" in inner and (needed or inner.get("default") == inner["const"]):
            fixed[name] = inner["const"]
        elif (
            needed and not is_nullable and level < MAX_LEVELS and _is_object(inner) and "default" not in inner
        ):
            fixed[name], more = _parts(inner, whole, at, level + 1)
            fields += more
        else:
            if needed and is_nullable:
                fixed[name] = None
            elif needed and inner.get("type") == "array" and not inner.get("minItems"):
                fixed[name] = []
            fields.append(_field(at, inner, is_nullable, needed and name not in fixed))
        if len(fields) > MAX_FIELDS:
            break
    return fixed, fields


def _field(path: tuple[str | int, ...], found: Schema, is_nullable: bool, is_required: bool) -> AnswerField:
    kind = KINDS.get(str(found.get("type")), "json")
    items = found.get("items")
    if found.get("type") == "array" and isinstance(items, dict) and items.get("type") == "string":
        kind = "list"
    choices = [found["const"]] if "const" in found else _list(found.get("enum"))
    choices = [one for one in choices if one is not None or not is_nullable]
    stored = found.get("default", MISSING)
    if stored is None and is_nullable:
        stored = MISSING
    label = str(found.get("title") or (path[-1] if path else _("answer")))
    return AnswerField(
        path,
        label,
        kind,
        tuple(choices) if len(choices) <= MAX_CHOICES else (),
        stored,
        is_required and stored is MISSING,
        str(found.get("description") or ""),
    )


def _is_object(found: Schema) -> bool:
    properties = found.get("properties")
    return isinstance(properties, dict) and bool(properties) and found.get("type", "object") == "object"


def _resolved(schema: Any, whole: Schema) -> tuple[Schema, bool]:
    """A schema with what it refers to, and whether the value may also be null, which it then leaves out."""
    found, is_nullable = _mapping(schema), False
    for _hop in range(MAX_HOPS):
        types, parts = found.get("type"), _list(found.get("allOf"))
        choices = next((name for name in ("anyOf", "oneOf") if found.get(name)), "")
        several = [one for one in _list(found.get(choices)) if _mapping(one).get("type") != "null"]
        if isinstance(found.get("$ref"), str):
            found = _merged(found, _at(whole, found["$ref"]), "$ref")
        elif len(parts) == 1:
            found = _merged(found, _mapping(parts[0]), "allOf")
        elif isinstance(types, list) and types:
            others = [one for one in types if one != "null"]
            is_nullable = is_nullable or len(others) < len(types)
            # Several types are typed as JSON.
            found = {**found, "type": others[0] if len(others) == 1 else ""}
        elif several and len(several) < len(found[choices]):
            is_nullable = True
            rest = _mapping(several[0]) if len(several) == 1 else {choices: several}
            found = _merged(found, rest, choices)
        elif len(several) == 1:
            found = _merged(found, _mapping(several[0]), choices)
        else:
            return found, is_nullable
    return {}, False


def _merged(outer: Schema, inner: Schema, without: str) -> Schema:
    return {**inner, **{name: one for name, one in outer.items() if name != without}}


def _at(whole: Schema, reference: str) -> Schema:
    """What a reference within the schema names; empty for any other reference."""
    found: Any = whole
    if reference != "#" and not reference.startswith("#/"):
        return {}
    for step in reference[2:].split("/") if reference != "#" else ():
        found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
    return _mapping(found)


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
