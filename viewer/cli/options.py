"""The options of a run, what a sweep varies, and what a person accepts, from a command's arguments."""

from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.edits import INTERRUPT, named_values, pair_of, parsed, read_text, unit_named
from viewer.engines import engine_of, kinds_that
from viewer.engines.editable import RunSettings
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.runner_request import CheckpointSettings
from viewer.launching.edits import INVALID, ValueKind
from viewer.launching.options import (
    ALL_AGENTS,
    MODEL,
    STOP_AFTER,
    STOP_BEFORE,
    TOOL,
    Option,
    can_warm_cache,
    changed_models,
    named_role,
    parse_cache_warmup,
    parse_limit,
    stored_models,
)
from viewer.launching.requests import ACCEPT_ALL, Accepted, Dimension, LaunchOptions
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
from viewer.models.jobs import MEASURES
from viewer.records.audit import present_actor
from viewer.validation import OptionType

# Arguments, derived from the options of a run.


def add_options(parser: CommandParser, *options: Option[Any]) -> None:
    """Add an argument for each option."""
    for one in options:
        derived: dict[str, Any] = {"action": "store_true"}
        if one.metavar or one.choices:
            derived = {"type": _type_of(one), "metavar": one.metavar or "|".join(one.choices)}
            derived |= {"action": "append", "default": []} if one.is_list else {"default": one.default}
        parser.add_argument(f"--{one.name}", help=str(one.help), **derived)


def _type_of(option: Option[Any]) -> OptionType:
    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except INVALID as invalid:
            raise ArgumentTypeError(translate(invalid)) from None

    return option.notation or OptionType(option.kind, parse)


# The values of a run's options, from the arguments of a command.


def request_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of every request, but for its models. Raises CommandError."""
    return {
        **sender_of(options),
        "checkpointing": checkpoint_settings_of(options),
        "settings": run_settings_of(options),
        "options": launch_options_of(options),
        "accepted": accepted_in(options),
    }


def sender_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Who sends a request, if not a person at a terminal, and the key with which it is started once."""
    return {"requested_by": present_actor().user, "key": options.get("key") or uuid4()}


def launch_options_of(options: Mapping[str, Any]) -> LaunchOptions:
    """The launch options. Raises CommandError for an invalid time or limit."""
    limits: dict[str, float] = {}
    for text in options["limit"]:
        measure, _equals, number = text.partition("=")
        if measure not in MEASURES:
            names = ", ".join(MEASURES)
            raise CommandError(_("--limit needs one of %(names)s, such as tokens=20000.") % {"names": names})
        limits[measure] = parsed(f"--limit {text}", partial(parse_limit, measure), number)
    return LaunchOptions(options["at"], limits, waits_for_host=options["queue"])


def checkpoint_settings_of(options: Mapping[str, Any]) -> CheckpointSettings:
    """The settings that were chosen. Raises CommandError."""
    settings = CheckpointSettings()
    if options.get("events") is not None:
        settings["events"] = [name.strip() for name in options["events"].split(",") if name.strip()]
        if not settings["events"]:
            raise CommandError(_("--events needs a name, such as task_completed."))
    if options.get("max_checkpoints") is not None:
        settings["max_checkpoints"] = options["max_checkpoints"]
    return settings


def choices_of(options: Mapping[str, Any], contents: Contents) -> dict[str, Any]:
    """The models and the warm-up of a request from this checkpoint. Raises CommandError."""
    stored, models = stored_models(contents), {}
    for role, model in _models(options):
        name = named_role(role, stored)
        if name not in stored:
            raise CommandError(_("This checkpoint has no agent %r.") % name)
        models[name] = model
    may_warm_up = can_warm_cache(contents)
    warmup = partial(parse_cache_warmup, may_warm_up=may_warm_up)
    strategy = parsed("--cache-warmup", warmup, options.get("cache_warmup") or "")
    return {"models": changed_models(models, stored), "cache_warmup": strategy}


def tools_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What happens when a run calls tools, as fields of a request. Raises CommandError."""
    chosen = {}
    for text in options["tool"] or []:
        name, _mark, choice = text.rpartition("=")
        chosen[name.strip()] = parsed(f"--tool {text}", TOOL.parse, choice.strip())
    return {"tools": chosen, "dry_run": options["dry_run"], "model_calls": options["model_calls"]}


def new_choices_of(options: Mapping[str, Any], kind: RootKind) -> dict[str, Any]:
    """Those of a new run, whose roles its runner knows. Raises CommandError."""
    models = {role or ALL_AGENTS: model for role, model in _models(options)}
    if not kind.can_warm_cache and (models or options.get("cache_warmup")):
        having = ", ".join(_(one.label) for one in kinds_that(lambda one: one.can_warm_cache))
        message = _("Models and the prompt cache can be chosen for a %(kinds)s only.")
        raise CommandError(message % {"kinds": having})
    return {"models": models, "cache_warmup": options.get("cache_warmup") or ""}


def _models(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a role, empty if none was named, and its model."""
    for text in options.get("model") or []:
        role, mark, model = text.rpartition("=")
        if not model.strip() or (mark and not role.strip()):
            raise CommandError(_("--model needs MODEL or ROLE=MODEL, not %s.") % text)
        yield role.strip(), parsed(f"--model {text}", MODEL.parse, model.strip())


def run_settings_of(options: Mapping[str, Any]) -> RunSettings:
    """The settings. Raises CommandError."""
    return RunSettings(
        stop_before=parsed("--stop-before", STOP_BEFORE.parse, options["stop_before"]),
        stop_after=parsed("--stop-after", STOP_AFTER.parse, options["stop_after"]),
        configurable=named_values(options["configurable"], "--configurable"),
        context=named_values(options["context"], "--context"),
    )


# What a person accepts and answers before a start.
#
# The terminal runs no preflight check, which would double the time to the start. The run's own runner checks
# the same before it runs anything, and refuses what was not accepted.


def accepted_in(options: Mapping[str, Any]) -> Accepted:
    """What is accepted: of each sort everything, or nothing."""
    return Accepted(
        redacted_parts=ACCEPT_ALL if options.get("accept_hidden") else "",
        losses=ACCEPT_ALL if options["accept_losses"] else "",
        effects=bool(options.get("accept_effects")),
    )


def answers_in(options: Mapping[str, Any], contents: Contents) -> dict[str, str]:
    """The matches, by the id of the saved task or agent. Raises CommandError."""
    answers = {}
    for text in options["match"]:
        saved, mark, chosen = text.partition("=")
        if not mark or not saved or not chosen:
            raise CommandError(_("--match needs SAVED=TASKNUMBER, not %s.") % text)
        answers[_saved_id(saved, contents)] = chosen
    return answers


def _saved_id(name: str, contents: Contents) -> str:
    """The id of the unit with this number; any other text is the id of a unit or an agent."""
    if not (name.isascii() and name.isdigit()):
        engine = engine_of(contents)
        if name not in {
            *(unit.id for unit in engine.units_of(contents)),
            *(one.id for one in contents.agents),
        }:
            unit = _(kind_of(engine, contents.kind).unit_label)
            message = _("This checkpoint has no %(unit)s or agent %(name)s.")
            raise CommandError(message % {"unit": unit, "name": name})
        return name
    return unit_named(contents, name)


# What the forks of a sweep differ in, from the arguments of a command.


def dimensions_of(options: Mapping[str, Any], contents: Contents) -> list[Dimension]:
    """The dimensions that were named. Raises CommandError."""
    try:
        return [
            *_values(options, contents),
            *_answers(options, contents),
            *_settings(options),
            *_outputs(options, contents),
            *_varied_models(options, contents),
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


def _varied_models(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
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
