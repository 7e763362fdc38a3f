"""The options of a run, and what a person accepts before a start, from a command's arguments."""

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.edits import NAME, PAIR, TEXT, named_values, unit_named
from viewer.engines import engine_of, kinds_that
from viewer.engines.editable import RunSettings
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import Contents, kind_of
from viewer.host.jobs.request import CheckpointSettings, Options
from viewer.launching.requests import (
    ACCEPT_ALL,
    ALL_AGENTS,
    MAX_KEPT_CHECKPOINTS,
    MIN_AGENTS_TO_WARM_UP,
    STRATEGIES,
    Accepted,
    LaunchOptions,
    agent_roles,
    parse_limit,
    parse_model,
    parse_start_time,
)
from viewer.launching.values import InvalidValue
from viewer.models.jobs import MEASURES
from viewer.validation import number_option

# The start time and limits of a run, from the arguments of a command.


def add_launch_arguments(parser: CommandParser) -> None:
    """Add --at and --limit."""
    parser.add_argument(
        "--at",
        type=NAME,
        metavar="TIME",
        help=_("The start time, as an ISO time; in the server's time zone unless it names one."),
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        type=PAIR,
        metavar="MEASURE=NUMBER",
        help=_("Stop at this many tokens, seconds or steps (finished tasks or methods): tokens=20000."),
    )


def launch_options_of(options: Mapping[str, Any]) -> LaunchOptions:
    """The launch options. Raises CommandError for an invalid time or limit."""
    limits: dict[str, float] = {}
    for text in options["limit"]:
        measure, _equals, number = text.partition("=")
        if measure not in MEASURES:
            names = ", ".join(MEASURES)
            raise CommandError(_("--limit needs one of %(names)s, such as tokens=20000.") % {"names": names})
        try:
            limits[measure] = parse_limit(measure, number)
        except ValueError as error:
            raise CommandError(f"--limit {text}: {error}") from error
    try:
        return LaunchOptions(parse_start_time(options["at"]) if options["at"] else None, limits)
    except ValueError as error:
        raise CommandError(f"--at {options['at']}: {error}") from error


# The events that write checkpoints and how many are kept, from the arguments of a command.


def add_checkpoint_arguments(parser: CommandParser) -> None:
    """Add --events and --max-checkpoints. The runner refuses events that the engine does not know."""
    parser.add_argument(
        "--events",
        type=TEXT,
        metavar="A,B",
        help=_("The engine's events at which it writes a checkpoint; * for all."),
    )
    parser.add_argument(
        "--max-checkpoints",
        type=number_option(1, MAX_KEPT_CHECKPOINTS),
        metavar="N",
        help=_("Keep only the latest N of the checkpoints that this run writes."),
    )
    # Scripts written for earlier versions use this name.
    parser.add_argument(
        "--most", type=number_option(1, MAX_KEPT_CHECKPOINTS), dest="max_checkpoints", help=SUPPRESS
    )


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


# The models and the prompt cache warm-up of a run, from the arguments of a command.


def add_choice_arguments(parser: CommandParser) -> None:
    """Add --model and --cache-warmup."""
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        type=NAME,
        metavar="[ROLE=]MODEL",
        help=_("Another model, for an agent's role or for all."),
    )
    add_cache_warmup_argument(parser, _("Warm up the model provider's prompt cache before the first call."))


def add_cache_warmup_argument(parser: CommandParser, help_text: str) -> None:
    """Add --cache-warmup, and refuse its former name with the new one."""
    parser.add_argument("--cache-warmup", choices=list(STRATEGIES), help=help_text)
    parser.add_argument("--preload", type=NAME, action=FormerOption, new_name="--cache-warmup", help=SUPPRESS)


class FormerOption(Action):
    """An option that has another name now. Using it is an error that names ``new_name``."""

    def __init__(self, *args: Any, new_name: str, **options: Any) -> None:
        super().__init__(*args, **{**options, "nargs": "?"})
        self.new_name = new_name

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option: Any = None) -> None:
        """Raise CommandError."""
        raise CommandError(_("%(old)s was renamed. Use %(new)s.") % {"old": option, "new": self.new_name})


def choices_of(options: Mapping[str, Any], contents: Contents) -> Options:
    """The options of a run from this checkpoint. Raises CommandError."""
    kind = kind_of(engine_of(contents), contents.kind)
    roles = agent_roles(contents) if kind.has_models else []
    stored = {agent.role: agent.model for agent in reversed(contents.agents)}
    models: dict[str, str] = {}
    for role, model in _models(options):
        name = role or (roles[0] if len(roles) == 1 else ALL_AGENTS)
        if name not in roles and not (name == ALL_AGENTS and len(roles) > 1):
            raise CommandError(_("This checkpoint has no agent %r.") % name)
        models[name] = model
    chosen = {role: model for role, model in models.items() if model != stored.get(role)}
    may_warm_up = kind.can_warm_cache and len(roles) >= MIN_AGENTS_TO_WARM_UP
    if options.get("cache_warmup") and not may_warm_up:
        raise CommandError(_("The prompt cache can only be warmed up for several agents."))
    return _options(chosen, options)


def new_choices_of(options: Mapping[str, Any], kind: RootKind) -> Options:
    """The options of a new run, whose roles its runner knows. Raises CommandError."""
    models = {role or ALL_AGENTS: model for role, model in _models(options)}
    if not kind.can_warm_cache and (models or options.get("cache_warmup")):
        having = ", ".join(_(one.label) for one in kinds_that(lambda one: one.can_warm_cache))
        message = _("Models and the prompt cache can be chosen for a %(kinds)s only.")
        raise CommandError(message % {"kinds": having})
    return _options(models, options)


def _options(models: dict[str, str], options: Mapping[str, Any]) -> Options:
    chosen = Options()
    if models:
        chosen["models"] = models
    if options.get("cache_warmup"):
        chosen["cache_warmup"] = options["cache_warmup"]
    return chosen


def _models(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a role, empty if none was named, and its model."""
    for text in options.get("model") or []:
        role, mark, model = text.rpartition("=")
        if not model.strip() or (mark and not role.strip()):
            raise CommandError(_("--model needs MODEL or ROLE=MODEL, not %s.") % text)
        try:
            yield role.strip(), parse_model(model.strip())
        except InvalidValue as invalid:
            raise CommandError(f"--model {text}: {invalid}") from None


# Breakpoints, configurable values and context, from the arguments of a command.


def add_run_settings_arguments(parser: CommandParser) -> None:
    """Add --stop-before, --stop-after, --configurable and --context."""
    for option, text in (
        ("--stop-before", _("LangGraph: stop before this node; * is every node.")),
        ("--stop-after", _("LangGraph: stop after this node; * is every node.")),
    ):
        parser.add_argument(option, action="append", default=[], type=NAME, metavar="NODE", help=text)
    for option, text in (
        ("--configurable", _("LangGraph: a value of the config's configurable.")),
        ("--context", _("LangGraph 0.6 and newer: a value of the runtime's context.")),
    ):
        parser.add_argument(
            option, action="append", default=[], type=PAIR, metavar="KEY=JSON|@FILE", help=text
        )


def run_settings_of(options: Mapping[str, Any]) -> RunSettings:
    """The settings. Raises CommandError."""
    return RunSettings(
        stop_before=tuple(dict.fromkeys(options["stop_before"])),
        stop_after=tuple(dict.fromkeys(options["stop_after"])),
        configurable=named_values(options["configurable"], "--configurable"),
        context=named_values(options["context"], "--context"),
    )


# Where a fork is written to, from the arguments of ``fork`` and ``publish``.


def target_of(contents: Contents, target: str) -> str:
    """The target. Raises CommandError if forks of this checkpoint have no such target."""
    if target not in dict(kind_of(engine_of(contents), contents.kind).fork_targets):
        raise CommandError(_("--into %s works only for checkpoints whose forks run as drafts.") % target)
    return target


# What a person accepts and answers before a start, from the arguments of a command.
#
# The terminal runs no preflight check, which would double the time to the start. The run's own runner checks
# the same before it runs anything, and refuses what was not accepted.


def add_accept_arguments(parser: CommandParser) -> None:
    """Add --accept-losses, --accept-effects, --accept-hidden and --match."""
    add_accept_losses_argument(parser)
    parser.add_argument(
        "--accept-effects",
        action="store_true",
        help=_("Accept the checkpoint's effects for the project."),
    )
    parser.add_argument(
        "--accept-hidden",
        action="store_true",
        help=_("Send the redacted parts of a pruned checkpoint's stored copy as they are."),
    )
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        type=PAIR,
        metavar="SAVED=TASKNUMBER",
        help=_(
            "The project's task for a stored task without a certain match; - if it was removed. SAVED is its "
            "number from 1 or its id; for an agent, its id, followed by the project's role."
        ),
    )


def add_accept_losses_argument(parser: CommandParser) -> None:
    """Add --accept-losses."""
    parser.add_argument(
        "--accept-losses", action="store_true", help=_("Start even if components would be lost.")
    )


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
