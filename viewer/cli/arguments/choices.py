"""The models and the prompt cache warm-up of a run, from the arguments of a command."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.engines import engine_of, kinds_that
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.root_kinds import RootKind
from viewer.jobs.spool import Options
from viewer.launching.option_values import (
    ALL_AGENTS,
    MIN_AGENTS_TO_WARM_UP,
    STRATEGIES,
    agent_roles,
    parse_model,
)
from viewer.launching.values import InvalidValue


def add_choice_arguments(parser: CommandParser) -> None:
    """Add --model and --preload."""
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[ROLE=]MODEL",
        help=_("Another model, for an agent's role or for all."),
    )
    parser.add_argument(
        "--preload",
        choices=list(STRATEGIES),
        help=_("Warm the provider's prompt cache before the first task."),
    )


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
    if options.get("preload") and not may_warm_up:
        raise CommandError(_("The prompt cache can be warmed for a crew of several agents only."))
    return _options(chosen, options)


def new_choices_of(options: Mapping[str, Any], kind: RootKind) -> Options:
    """The options of a new run, whose roles its runner knows. Raises CommandError."""
    models = {role or ALL_AGENTS: model for role, model in _models(options)}
    if not kind.can_warm_cache and (models or options.get("preload")):
        having = ", ".join(_(one.label) for one in kinds_that(lambda one: one.can_warm_cache))
        message = _("Models and the prompt cache can be chosen for a %(kinds)s only.")
        raise CommandError(message % {"kinds": having})
    return _options(models, options)


def _options(models: dict[str, str], options: Mapping[str, Any]) -> Options:
    chosen = Options()
    if models:
        chosen["models"] = models
    if options.get("preload"):
        chosen["cache_warmup"] = options["preload"]
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
