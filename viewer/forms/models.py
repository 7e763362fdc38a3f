"""The part of a form for the models of agents and the prompt cache warm-up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of
from viewer.forms.fields import Sent
from viewer.jobs.spool import Options
from viewer.launching.option_values import (
    ALL_AGENTS,
    MIN_AGENTS_TO_WARM_UP,
    STRATEGIES,
    agent_roles,
    parse_model,
)
from viewer.launching.values import InvalidValue
from viewer.redaction.marker import MARKER


@dataclass(slots=True)
class ModelField:
    """The model of one role, or of all. ``text`` is empty if it is unchanged."""

    role: str
    html_id: str
    stored: str
    text: str = ""
    error: str = ""

    @property
    def html_name(self) -> str:
        return f"model:{self.role}"

    @property
    def is_all(self) -> bool:
        return self.role == ALL_AGENTS


@dataclass(slots=True)
class ModelChoices:
    """``preload`` is one of STRATEGIES, or empty. ``fields`` is empty if no agent is known."""

    fields: list[ModelField] = field(default_factory=list)
    may_preload: bool = False
    preload: str = ""
    preload_error: str = ""

    @property
    def strategies(self) -> list[tuple[str, str]]:
        """The choices, with their labels."""
        return [(name, str(words)) for name, words in STRATEGIES.items()]

    @property
    def chosen(self) -> dict[str, str]:
        """The models that differ from the stored ones, by role."""
        return {one.role: one.text for one in self.fields if one.text and one.text != one.stored}

    @property
    def options(self) -> Options:
        """The options of a run: only those that were chosen."""
        found: Options = {}
        if self.chosen:
            found["models"] = self.chosen
        if self.preload:
            found["cache_warmup"] = self.preload
        return found

    @property
    def summary(self) -> str:
        """A short label of what is chosen."""
        shown = [
            f"{_('all') if role == ALL_AGENTS else role}: {model}" for role, model in self.chosen.items()
        ]
        if self.preload:
            shown.append(_("the prompt cache is warmed"))
        return ", ".join(shown) or _("as they are")

    @property
    def is_open(self) -> bool:
        """Whether this part of the form starts open."""
        return bool(self.options) or any(True for _error in self.errors)

    @property
    def errors(self) -> Iterator[tuple[str, str, str]]:
        """The id, label and message of each invalid field."""
        for one in self.fields:
            if one.error:
                yield one.html_id, _("Model"), one.error
        if self.preload_error:
            yield "preload", _("Prompt cache"), self.preload_error


def read_models(contents: Contents, sent: Sent) -> ModelChoices:
    """The choices for a fork, first shown if ``sent`` is None."""
    kind = kind_of(engine_of(contents), contents.kind)
    if not kind.has_models:
        return ModelChoices()
    stored = {agent.role: agent.model for agent in reversed(contents.agents) if agent.role}
    roles = agent_roles(contents)
    made = ModelChoices(may_preload=kind.can_warm_cache and len(roles) >= MIN_AGENTS_TO_WARM_UP)
    if len(roles) > 1:
        made.fields.append(ModelField(ALL_AGENTS, "model-all", ""))
    made.fields += [ModelField(role, f"model-{number}", stored[role]) for number, role in enumerate(roles, 1)]
    return _read(made, sent)


def read_new_models(roles: Sequence[str], sent: Sent) -> ModelChoices:
    """The choices for a new run, whose agents are not known before it starts.

    ``roles`` are those of an earlier run. Their models may have changed, so none is shown. A role with a
    redacted part is left out.
    """
    made = ModelChoices([ModelField(ALL_AGENTS, "model-all", "")], may_preload=True)
    whole = [role for role in roles if MARKER not in role]
    made.fields += [ModelField(role, f"model-{number}", "") for number, role in enumerate(whole, 1)]
    return _read(made, sent)


def _read(made: ModelChoices, sent: Sent) -> ModelChoices:
    for one in made.fields:
        try:
            one.text = (sent or {}).get(one.html_name, "").strip()
            parse_model(one.text)
        except InvalidValue as refused:
            one.error = str(refused)
    preload = (sent or {}).get("preload", "")
    if preload and (preload not in STRATEGIES or not made.may_preload):
        made.preload_error = _("Choose one of these.")
    else:
        made.preload = preload
    return made
