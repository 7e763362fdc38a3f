"""What the forks of a sweep differ in, from the arguments of a command."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.cli.edits import INTERRUPT, pair_of, read_text, unit_named
from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of
from viewer.launching.options import named_role, stored_models
from viewer.launching.requests import Dimension
from viewer.launching.values import INVALID, ValueKind
from viewer.launching.variations import (
    answer_dimension,
    dimension_values,
    model_dimension,
    output_dimension,
    output_label,
    setting_dimension,
    value_dimension,
)
from viewer.messages.translation import translate


def dimensions_of(options: Mapping[str, Any], contents: Contents) -> list[Dimension]:
    """The dimensions that were named. Raises CommandError."""
    try:
        return [
            *_values(options, contents),
            *_answers(options, contents),
            *_settings(options),
            *_outputs(options, contents),
            *_models(options, contents),
        ]
    except INVALID as invalid:
        raise CommandError(translate(invalid)) from None


def _answers(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
    questions = {one.id: one for one in engine_of(contents).editable(contents).questions}
    for text in options["vary_answer"]:
        identifier, mark, values = text.partition("=")
        if not (mark and INTERRUPT.fullmatch(identifier)):
            identifier, values = next(iter(questions), "") if len(questions) == 1 else "", text
        if identifier not in questions:
            raise _nothing_named(identifier or values)
        if not values.strip().startswith("["):
            raise CommandError(_("--vary-answer needs a JSON list, such as [1, 2]."))
        yield answer_dimension(questions[identifier], values)


def _settings(options: Mapping[str, Any]) -> Iterator[Dimension]:
    for group in ("configurable", "context"):
        option = f"--vary-{group}"
        for name, text in _pairs(options[f"vary_{group}"], option):
            if not text.strip().startswith("["):
                message = _("%(option)s %(name)s needs a JSON list, such as [1, 2].")
                raise CommandError(message % {"option": option, "name": name})
            yield setting_dimension(group, name, ValueKind.JSON, text)


def _values(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
    group, known = dimension_values(contents)
    for name, text in _pairs(options["vary"], "--vary"):
        if not text.strip().startswith("["):
            raise CommandError(_("--vary %s needs a JSON list, such as [1, 2].") % name)
        if name not in known:
            raise _nothing_named(name)
        yield value_dimension(group, name, known[name], text)


def _outputs(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
    texts: dict[str, list[str]] = {}
    for name, text in _pairs(options["vary_output"], "--vary-output"):
        texts.setdefault(unit_named(contents, name), []).append(read_text(text))
    stored = {unit_named(contents, name) for name in options["as_it_is"]}
    engine = engine_of(contents)
    outputs = {one.unit: one for one in engine.editable(contents).outputs}
    unit_label = kind_of(engine, contents.kind).unit_label
    for unit in [*texts, *stored]:
        if unit not in outputs:
            raise _nothing_named(unit)
    for unit, values in texts.items():
        label = output_label(unit_label, outputs[unit])
        yield output_dimension(label, outputs[unit], values, unit in stored)


def _models(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
    stored = stored_models(contents)
    for text in options["vary_model"]:
        role, _mark, models = text.rpartition("=")
        name = named_role(role, stored)
        if name not in stored:
            raise _nothing_named(name)
        yield model_dimension(name, models.split(","))


def _nothing_named(name: str) -> CommandError:
    return CommandError(_("This checkpoint has nothing named %r that can be varied.") % name)


def _pairs(texts: Iterable[str], option: str) -> Iterator[tuple[str, str]]:
    return (pair_of(text, option) for text in texts)
