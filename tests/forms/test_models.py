"""Models for the agents of a fork, as the form and the terminal read them."""

from typing import Any

import pytest
from django.core.management.base import CommandError

from tests.forms.samples import agent, crew, flow, task
from viewer.cli.options import choices_of, new_choices_of
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.labels import KINDS
from viewer.redaction import MARKER
from viewer.web.launch.options import ModelField, ModelsForm, models_form, new_models_form

AGENTS: list[dict[str, Any]] = [
    {"id": "a", "role": "Researcher of AI", "llm": {"model": "gpt-4o"}},
    {"id": "b", "role": "Writer\n", "llm": "gpt-4o-mini"},
]


def fields_of(form: ModelsForm) -> list[ModelField]:
    return [field for field in form.fields.values() if isinstance(field, ModelField)]


@pytest.fixture
def two() -> Contents:
    return crew([task(1, "one"), task(2)], {}, AGENTS)


def test_each_role_has_a_field_with_its_current_model(two: Contents) -> None:
    form = models_form(two, None)
    assert [(one.role, one.stored) for one in fields_of(form)] == [
        ("*", ""),
        ("Researcher of AI", "gpt-4o"),
        ("Writer", "gpt-4o-mini"),
    ]
    assert form.may_warm_up and (form.chosen, form.strategy) == ({}, "")


def test_only_changed_models_are_chosen(two: Contents) -> None:
    sent = {"model:Writer": " o3 ", "model:Researcher of AI": "gpt-4o", "cache_warmup": "shared_prefix"}
    form = models_form(two, sent)
    assert (form.chosen, form.strategy) == ({"Writer": "o3"}, "shared_prefix")


@pytest.mark.parametrize("name", ["gpt 4", "x" * 201, "gpt\u202e4", MARKER])
def test_an_invalid_model_name_is_refused(two: Contents, name: str) -> None:
    form = models_form(two, {"model:*": name, "cache_warmup": "loudly"})
    assert [form[name].id_for_label for name in form.errors] == ["model-all", "cache_warmup"]


def test_a_flow_has_no_model_fields_and_one_agent_no_cache_warm_up() -> None:
    assert fields_of(models_form(flow({}), {"cache_warmup": "parallel"})) == []
    lone = models_form(agent("Hello"), {"cache_warmup": "parallel"})
    assert [one.role for one in fields_of(lone)] == ["Interviewer"]
    assert not lone.may_warm_up and list(lone.errors) == ["cache_warmup"]


def test_the_model_option_names_a_role_or_applies_to_all(two: Contents) -> None:
    options = {"model": ["gpt-4.1", "Writer=azure/o3"], "cache_warmup": "parallel"}
    assert choices_of(options, two) == {
        "models": {"*": "gpt-4.1", "Writer": "azure/o3"},
        "cache_warmup": "parallel",
    }
    assert choices_of({"model": ["o3"]}, agent("Hello"))["models"] == {"Interviewer": "o3"}
    for wrong in ("Writer=", "=o3", "Printer=o3", "gpt 4"):
        with pytest.raises(CommandError):
            choices_of({"model": [wrong]}, two)


def test_a_new_crew_has_fields_for_all_agents_and_roles_of_earlier_runs() -> None:
    sent = {"model:*": "gpt-4.1", "model:Writer": "o3", "cache_warmup": "parallel"}
    form = new_models_form(["Researcher of AI", f"Friend of {MARKER}", "Writer"], sent)
    assert [one.role for one in fields_of(form)] == ["*", "Researcher of AI", "Writer"]
    assert (form.chosen, form.strategy) == ({"*": "gpt-4.1", "Writer": "o3"}, "parallel")
    assert [one.role for one in fields_of(new_models_form([], None))] == ["*"]


def test_the_model_option_is_only_for_crews() -> None:
    options = {"model": ["gpt-4.1", "Writer=azure/o3"], "cache_warmup": "parallel"}
    chosen = {"models": {"*": "gpt-4.1", "Writer": "azure/o3"}, "cache_warmup": "parallel"}
    assert new_choices_of(options, KINDS["crew"]) == chosen
    assert new_choices_of({}, KINDS["flow"]) == {"models": {}, "cache_warmup": ""}
    for wrong, entity in (("Writer=", "crew"), ("gpt 4", "crew"), ("o3", "flow"), ("o3", "agent")):
        with pytest.raises(CommandError):
            new_choices_of({"model": [wrong]}, KINDS[entity])
