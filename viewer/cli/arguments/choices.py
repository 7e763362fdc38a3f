"""What a person chooses for a run beside its edits, from the arguments of a subcommand."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.engines.crewai.contents import Contents
from viewer.forms.models import ALL, STRATEGIES, ModelChoices, read_models, read_new_models
from viewer.jobs.spool import Options


def add_choice_arguments(parser: CommandParser) -> None:
    """Declare the models and the warming of the prompt cache."""
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
    """The choices as a run's options. Raises CommandError."""
    fields = read_models(contents, None).fields
    everyone = fields[0].html_name if len(fields) == 1 else f"model:{ALL}"
    sent = {"preload": options.get("preload") or ""}
    for role, model in _models_in(options):
        name = f"model:{role}" if role else everyone
        if name not in {field.html_name for field in fields}:
            raise CommandError(_("This checkpoint has no agent %r.") % (role or ALL))
        sent[name] = model
    return _options_of(read_models(contents, sent))


def new_choices_of(options: Mapping[str, Any], entity: str) -> Options:
    """The choices as a new run's options; its child knows the roles. Raises CommandError."""
    models = {role or ALL: model for role, model in _models_in(options)}
    sent = {f"model:{role}": model for role, model in models.items()}
    sent["preload"] = options.get("preload") or ""
    if entity != "crew":
        if models or sent["preload"]:
            raise CommandError(_("Models and the prompt cache can be chosen for a crew only."))
        return Options()
    return _options_of(read_new_models([role for role in models if role != ALL], sent))


def _models_in(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each role that was named, empty where none was, and its model."""
    for text in options.get("model") or []:
        role, mark, model = text.rpartition("=")
        if not model.strip() or (mark and not role.strip()):
            raise CommandError(_("--model needs MODEL or ROLE=MODEL, not %s.") % text)
        yield role.strip(), model


def _options_of(form: ModelChoices) -> Options:
    for _id, label, message in form.errors:
        raise CommandError(f"{label}: {message}")
    return form.options
