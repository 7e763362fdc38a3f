"""Edits, the options of a run, what a sweep varies, and what a person accepts, from arguments."""

import json
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer import validation
from viewer.cli.arguments import read_text
from viewer.engines import engine_of, kinds_that
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import EditableMessage, Edits, MessageEdit, OpenQuestion, RunSettings
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.runner_protocol import CheckpointSettings
from viewer.launching import sweep
from viewer.launching.edits import (
    INVALID,
    InvalidValue,
    ValueKind,
    changed_message,
    new_message,
    parse_json,
    parse_object,
    parse_output,
    parse_typed_answer,
    parse_untyped,
    same_value,
    written_messages,
)
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
from viewer.messages.translation import translate
from viewer.models.jobs import MEASURES
from viewer.records.audit import present_actor
from viewer.redaction import MARKER

# Values of options.


Parsed = TypeVar("Parsed")


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of NAME=VALUE. Raises CommandError."""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise CommandError(
            _("%(option)s needs NAME=VALUE, not %(text)s.")
            % {"option": option, "text": validation.quoted(text)}
        )
    return name, value


def parsed(option: str, parse: Callable[[Any], Parsed], text: Any) -> Parsed:
    """What ``parse`` returns. Raises CommandError that begins with the option for an invalid text."""
    try:
        return parse(text)
    except INVALID as invalid:
        raise CommandError(f"{option}: {translate(invalid)}{_hint(text, parse)}") from None


def _hint(text: Any, parse: Callable[[Any], Any]) -> str:
    """How a text is written that begins like JSON, if that may be what is wrong."""
    is_answer = isinstance(parse, partial) and parse.func is parse_typed_answer
    is_like_json = parse is parse_untyped or (is_answer and text.lstrip()[:1] in ("{", "[", '"'))
    if not is_like_json or MARKER in text:
        return ""
    return " " + _("A text is written in quotes: %s") % json.dumps(
        validation.shortened(text), ensure_ascii=False
    )


# Edits of messages, from ``--message``.


# The operations, each with the keys that it may have.
OPERATIONS = {
    "edit": {"content", "tool_calls"},
    "remove": set[str](),
    "add": {"content", "tool_calls", "tool_call_id", "before"},
}


def written_conversations(
    contents: Contents, texts: Sequence[str], replaced: Collection[str]
) -> dict[str, Any]:
    """What the edits of messages write to each channel. Raises CommandError.

    Channels that are ``replaced`` get all messages, others only what changes, by its id.
    """
    given_by_name: dict[str, list[Any]] = {}
    for text in texts:
        name, value = pair_of(text, "--message")
        given = parsed("--message", parse_json, read_text(value))
        given_by_name.setdefault(name, []).extend(given if isinstance(given, list) else [given])
    if not given_by_name:
        return {}
    editable = engine_of(contents).editable(contents)
    found = {}
    for name, operations in given_by_name.items():
        messages = editable.conversations.get(name)
        if messages is None:
            raise CommandError(_("--message: %(name)s is not a list of messages.") % {"name": name})
        edits = message_edits(operations, messages, f"--message {name}")
        stored = (editable.state or {}).get(name)
        found[name], error = written_messages(contents, stored, edits, by_id=name not in replaced)
        if error:
            raise CommandError(f"--message {name}: {error}")
    return found


def message_edits(
    operations: Any, messages: Sequence[EditableMessage], option: str = "--message"
) -> list[MessageEdit]:
    """The edits of messages that ``--message`` names: one operation, or a list. Raises CommandError."""
    try:
        given = operations if isinstance(operations, list) else [operations]
        return [edit for one in given if (edit := _edit(one, messages))]
    except InvalidValue as invalid:
        raise CommandError(f"{option}: {invalid}") from None


def _edit(given: Any, messages: Sequence[EditableMessage]) -> MessageEdit | None:
    """One operation; None if it changes nothing. Raises CommandError and InvalidValue."""
    named = [name for name in OPERATIONS if isinstance(given, dict) and name in given]
    if len(named) != 1 or not set(given) <= {named[0], *OPERATIONS[named[0]]}:
        raise CommandError(
            _("--message needs one of edit, remove and add, not %(value)s.") % {"value": given}
        )
    operation = named[0]
    if operation == "add":
        before = _stored(given["before"], messages).position if "before" in given else None
        call = str(given.get("tool_call_id", ""))
        content, calls = given.get("content", ""), given.get("tool_calls", [])
        return new_message(given["add"], content, calls, call, before)
    stored = _stored(given[operation], messages)
    if operation == "remove":
        return MessageEdit(stored.position, is_removed=True)
    content, calls = given.get("content", stored.content), given.get("tool_calls", list(stored.calls))
    return changed_message(stored, content, calls)


def _stored(wanted: Any, messages: Sequence[EditableMessage]) -> EditableMessage:
    """The message at a position from 1, or with an id. Raises CommandError."""
    found: Mapping[Any, EditableMessage] = {
        **{one.position + 1: one for one in messages},
        **{one.id: one for one in messages if one.id},
    }
    if isinstance(wanted, bool) or not isinstance(wanted, int | str) or wanted not in found:
        raise CommandError(_("--message: there is no message %(wanted)s.") % {"wanted": wanted})
    return found[wanted]


# Edits, from the arguments of ``fork`` and ``resume``.


# The id of an interrupt.
INTERRUPT = re.compile("[0-9a-f]{32}")


def edits_of(options: Mapping[str, Any], contents: Contents) -> Edits:
    """The edits, each value with its JSON type. Raises CommandError."""
    outputs = _outputs(options["output"], contents)
    inputs = inputs_of(options)
    engine = engine_of(contents)
    can_be_same = kind_of(engine, contents.kind).can_add_inputs
    stored = (engine.editable(contents).inputs or {}) if can_be_same else {}
    return Edits(
        # A value that it has already is not a change, so nothing becomes stale.
        inputs={
            name: value
            for name, value in inputs.items()
            if name not in stored or not same_value(value, stored[name])
        },
        outputs={unit: value for unit, value in outputs.items() if value is not None},
        state=_state(options, contents),
        again=frozenset(unit_named(contents, name) for name in options["again"]),
        keep=frozenset(unit_named(contents, name) for name in options["keep"]),
        replace=frozenset(options["replace"]),
        as_node=options["as_node"] or "",
        answers=answers_of(
            options["answer"], engine.editable(contents).questions if options["answer"] else ()
        ),
    )


def _state(options: Mapping[str, Any], contents: Contents) -> dict[str, Any] | None:
    """The values of ``--state``, and the conversations that ``--message`` edits. Raises CommandError."""
    state = None if options["state"] is None else state_of(options["state"])
    messages = written_conversations(contents, options["message"], options["replace"])
    if both := sorted(messages.keys() & (state or {}).keys()):
        raise CommandError(_("%(name)s is in both --state and --message.") % {"name": both[0]})
    return {**(state or {}), **messages} if messages else state


def answers_of(texts: Sequence[str], questions: Sequence[OpenQuestion]) -> dict[str, Any]:
    """The answers by an interrupt's id; one without an id is under an empty one. Raises CommandError.

    An answer is of the type that its question's schema names, if it has one.
    """
    asked = {one.id: one for one in questions}
    if len(questions) == 1:
        asked[""] = questions[0]
    found: dict[str, Any] = {}
    for text in texts:
        identifier, mark, value = text.partition("=")
        has_id = bool(mark) and INTERRUPT.fullmatch(identifier) is not None
        name, given = (identifier, value) if has_id else ("", text)
        found[name] = parsed("--answer", partial(parse_typed_answer, asked.get(name)), given)
    return found


def inputs_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``--input``, each with its JSON type. Raises CommandError."""
    return named_values(options["input"], "--input", from_files=False)


def named_values(texts: Sequence[str], option: str, *, from_files: bool = True) -> dict[str, Any]:
    """The values of an option that is given as KEY=JSON, or as KEY=@FILE if ``from_files``.

    Raises CommandError.
    """
    pairs = [pair_of(text, option) for text in texts]
    return {
        name: parsed(f"{option} {name}", parse_untyped, read_text(text) if from_files else text)
        for name, text in pairs
    }


def unit_named(contents: Contents, name: str) -> str:
    """The id of the unit with this number; any other text is an id."""
    if not name.isascii() or not name.isdigit():
        return name
    engine = engine_of(contents)
    units = engine.units_of(contents)
    if len(name) > validation.MAX_DIGITS or not 1 <= int(name) <= len(units):
        unit = _(kind_of(engine, contents.kind).unit_label)
        raise CommandError(
            _("There is no %(unit)s %(name)s: this checkpoint has %(count)d.")
            % {"unit": unit, "name": name, "count": len(units)}
        )
    return units[int(name) - 1].id


def _outputs(texts: Sequence[str], contents: Contents) -> dict[str, Any]:
    """The values of ``--output`` by unit, None for the stored one. Raises CommandError."""
    stored = {one.unit: one for one in engine_of(contents).editable(contents).outputs}
    found = {}
    for name, text in (pair_of(text, "--output") for text in texts):
        unit = unit_named(contents, name)
        found[unit] = parsed(f"--output {name}", partial(parse_output, stored.get(unit)), read_text(text))
    return found


def state_of(text: str) -> dict[str, Any]:
    """The value of ``--state``. Raises CommandError."""
    return parsed("--state", parse_object, read_text(text))


# Arguments, derived from the options of a run.


def add_options(parser: CommandParser, *options: Option[Any]) -> None:
    """Add an argument for each option."""
    for one in options:
        derived: dict[str, Any] = {"action": "store_true"}
        if one.metavar or one.choices:
            derived = {"type": _type_of(one), "metavar": one.metavar or "|".join(one.choices)}
            derived |= {"action": "append", "default": []} if one.is_list else {"default": one.default}
        parser.add_argument(f"--{one.name}", help=str(one.help), **derived)


def _type_of(option: Option[Any]) -> validation.OptionType:
    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except INVALID as invalid:
            raise ArgumentTypeError(translate(invalid)) from None

    return option.notation or validation.OptionType(option.kind, parse)


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
    if name.isascii() and name.isdigit():
        return unit_named(contents, name)
    engine = engine_of(contents)
    ids = {*(unit.id for unit in engine.units_of(contents)), *(one.id for one in contents.agents)}
    if name not in ids:
        unit = _(kind_of(engine, contents.kind).unit_label)
        message = _("This checkpoint has no %(unit)s or agent %(name)s.")
        raise CommandError(message % {"unit": unit, "name": name})
    return name


# What the forks of a sweep differ in, from the arguments of a command.


def dimensions_of(options: Mapping[str, Any], contents: Contents) -> list[Dimension]:
    """The dimensions that were named. Raises CommandError."""
    try:
        return [
            *_values(options, contents),
            *_answers(options, contents),
            *_settings(options),
            *_varied_outputs(options, contents),
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
        yield sweep.answer_dimension(questions[identifier], values)


def _settings(options: Mapping[str, Any]) -> Iterator[Dimension]:
    for group in ("configurable", "context"):
        option = f"--vary-{group}"
        for name, text in _pairs(options[f"vary_{group}"], option):
            if not text.strip().startswith("["):
                message = _("%(option)s %(name)s needs a JSON list, such as [1, 2].")
                raise CommandError(message % {"option": option, "name": name})
            yield sweep.value_dimension(group, name, ValueKind.JSON, text)


def _values(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
    group, known = sweep.dimension_values(contents)
    for name, text in _pairs(options["vary"], "--vary"):
        if not text.strip().startswith("["):
            raise CommandError(_("--vary %s needs a JSON list, such as [1, 2].") % name)
        if name not in known:
            raise _nothing_named(name)
        yield sweep.value_dimension(group, name, sweep.editing_kind(known[name]), text)


def _varied_outputs(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
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
        label = sweep.output_label(unit_label, outputs[unit])
        yield sweep.output_dimension(label, outputs[unit], values, unit in stored)


def _varied_models(options: Mapping[str, Any], contents: Contents) -> Iterator[Dimension]:
    stored = stored_models(contents)
    for text in options["vary_model"]:
        role, _mark, models = text.rpartition("=")
        name = named_role(role, stored)
        if name not in stored:
            raise _nothing_named(name)
        yield sweep.model_dimension(name, models.split(","))


def _nothing_named(name: str) -> CommandError:
    return CommandError(_("This checkpoint has nothing named %r that can be varied.") % name)


def _pairs(texts: Iterable[str], option: str) -> Iterator[tuple[str, str]]:
    return (pair_of(text, option) for text in texts)
