"""The models and the prompt cache warm-up of a run, from the arguments of a command."""

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.values import NAME
from viewer.engines import engine_of, kinds_that
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.root_kinds import RootKind
from viewer.jobs.request import Options
from viewer.launching.requests.option_values import (
    ALL_AGENTS,
    MIN_AGENTS_TO_WARM_UP,
    STRATEGIES,
    agent_roles,
    parse_model,
)
from viewer.launching.requests.values import InvalidValue


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
