"""The form for the models of agents and the prompt cache warm-up."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of
from viewer.forms.fields import parsed
from viewer.forms.launch.valid_values import valid_values
from viewer.launching.requests.option_values import (
    ALL_AGENTS,
    MIN_AGENTS_TO_WARM_UP,
    STRATEGIES,
    agent_roles,
    parse_model,
)
from viewer.redaction.marker import MARKER

CACHE_WARMUP = "cache_warmup"


class ModelField(forms.CharField):
    """The model of one role, or of all. It is unchanged if empty; ``stored`` is the checkpoint's."""

    def __init__(self, role: str, html_id: str, stored: str) -> None:
        self.role, self.stored = role, stored
        widget = forms.TextInput(attrs={"id": html_id})
        super().__init__(required=False, initial="", label=_("Model"), widget=widget)

    @property
    def is_all(self) -> bool:
        return self.role == ALL_AGENTS

    def clean(self, value: Any) -> str:
        text = super().clean(value)
        return parsed(lambda: parse_model(text))


class ModelsForm(forms.Form):
    """A field for each role in ``stored``, with its model, and the strategy to warm up the prompt cache."""

    cache_warmup = forms.ChoiceField(
        required=False,
        initial="",
        label=_("Prompt cache"),
        widget=forms.Select(attrs={"id": CACHE_WARMUP}),
        error_messages={"invalid_choice": _("Choose one of these.")},
    )

    def __init__(self, data: Any, stored: Mapping[str, str], *, may_warm_up: bool) -> None:
        super().__init__(data)
        self.may_warm_up = may_warm_up
        roles = [role for role in stored if role != ALL_AGENTS]
        numbers = {ALL_AGENTS: "all"} | {role: str(number) for number, role in enumerate(roles, 1)}
        for role, model in stored.items():
            self.fields[name_of(role)] = ModelField(role, f"model-{numbers[role]}", model)
        cache_warmup = self.fields[CACHE_WARMUP]
        assert isinstance(cache_warmup, forms.ChoiceField)
        cache_warmup.choices = [("", _("Off")), *(STRATEGIES.items() if may_warm_up else ())]
        self.order_fields([*map(name_of, stored), CACHE_WARMUP])

    @property
    def chosen(self) -> dict[str, str]:
        """The models that differ from the stored ones, by role."""
        values = valid_values(self)
        fields = {name: field for name, field in self.fields.items() if isinstance(field, ModelField)}
        return {
            field.role: values[name]
            for name, field in fields.items()
            if values.get(name) and values[name] != field.stored
        }

    @property
    def strategy(self) -> str:
        """One of STRATEGIES, or empty."""
        return str(valid_values(self).get(CACHE_WARMUP, ""))


def models_form(contents: Contents, data: Any) -> ModelsForm:
    """The form for a launch from this checkpoint, empty if its kind has no agents."""
    kind = kind_of(engine_of(contents), contents.kind)
    if not kind.has_models:
        return no_models_form()
    models = {agent.role: agent.model for agent in reversed(contents.agents) if agent.role}
    stored = {role: models[role] for role in agent_roles(contents)}
    may_warm_up = kind.can_warm_cache and len(stored) >= MIN_AGENTS_TO_WARM_UP
    return ModelsForm(
        data, {ALL_AGENTS: "", **stored} if len(stored) > 1 else stored, may_warm_up=may_warm_up
    )


def new_models_form(roles: Sequence[str], data: Any) -> ModelsForm:
    """The form for a new run, whose agents are not known before it starts.

    ``roles`` are those of an earlier run. Their models may have changed, so none is shown. A role with a
    redacted part is left out.
    """
    whole = [role for role in roles if MARKER not in role]
    return ModelsForm(data, dict.fromkeys([ALL_AGENTS, *whole], ""), may_warm_up=True)


def no_models_form() -> ModelsForm:
    """A form without fields of models, which nothing was sent to."""
    return ModelsForm(None, {}, may_warm_up=False)


def name_of(role: str) -> str:
    """The name of the role's field."""
    return f"model:{role}"
