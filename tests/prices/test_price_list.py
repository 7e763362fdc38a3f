from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from viewer.records.prices import current_prices
from viewer.stores.protocol import ModelCall, call_of, usage_by_model

AT = datetime(2026, 11, 20, tzinfo=UTC)
MILLION = 1_000_000


@pytest.fixture
def own_file(tmp_path: Path, settings: Any) -> Path:
    path = tmp_path / "prices.toml"
    settings.PRICES_FILE = path
    return path


def test_a_known_model_has_the_published_price() -> None:
    price = current_prices().price("gpt-4o-mini", MILLION, MILLION, at=AT)
    assert price == pytest.approx(0.75)


def test_a_provider_before_the_model_names_the_same_price() -> None:
    prices = current_prices()
    assert prices.price("openai/gpt-4o-mini", MILLION, 0, at=AT) == prices.price(
        "gpt-4o-mini", MILLION, 0, at=AT
    )


def test_cached_tokens_cost_less() -> None:
    prices = current_prices()
    cached = prices.price("gpt-4o-mini", MILLION, 0, MILLION, AT)
    assert cached is not None and cached < (prices.price("gpt-4o-mini", MILLION, 0, at=AT) or 0)


@pytest.mark.parametrize("model", ["", "offline", "ollama/llama3", "gpt", "no-such-provider/gpt-4o-mini"])
def test_an_unknown_model_has_no_price_rather_than_zero(model: str) -> None:
    assert current_prices().price(model, 100, 100) is None


def test_a_call_whose_tokens_are_not_split_has_no_price() -> None:
    cost = current_prices().cost(usage_by_model([ModelCall(300, model="gpt-4o-mini")]))
    assert (cost.amount, cost.unpriced_calls) == (None, 1)


def test_the_file_overrides_the_published_price(own_file: Path) -> None:
    own_file.write_text(
        '["gpt-4o-mini"]\ninput = 1\noutput = 2\ncached_input = 0.5\n[mine]\ninput=0\noutput=0\n'
    )
    prices = current_prices()
    assert prices.price("gpt-4o-mini", MILLION, MILLION, MILLION // 2) == pytest.approx(2.75)
    assert prices.price("mine", 10, 10) == 0


def test_a_changed_file_is_read_again_and_changes_the_digest(own_file: Path) -> None:
    own_file.write_text("[mine]\ninput = 1\noutput = 1\n")
    before = current_prices()
    own_file.write_text("[mine]\ninput = 10\noutput = 1\n")
    after = current_prices()
    assert (before.price("mine", MILLION, 0), after.price("mine", MILLION, 0)) == (1, 10)
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[mine", "Expected"),
        ("[mine]\ninput = 1\n", "needs input and output"),
        ("[mine]\ninput = -1\noutput = 1\n", "a number of at least 0"),
        ("[mine]\ninput = nan\noutput = 1\n", "a number of at least 0"),
        ("[mine]\ninput = true\noutput = 1\n", "a number of at least 0"),
        ("[mine]\ninput = 1\noutput = 1\ncurrency = 'EUR'\n", "unknown key: currency"),
    ],
)
def test_a_faulty_file_is_reported_and_the_built_in_prices_apply(own_file: Path, text: str, why: str) -> None:
    own_file.write_text(text)
    prices = current_prices()
    assert why in prices.fault
    assert prices.price("gpt-4o-mini", MILLION, 0) is not None


def test_a_missing_file_is_a_fault(own_file: Path) -> None:
    assert current_prices().fault == "No such file or directory"


def test_costs_are_added_up_and_calls_without_a_price_counted(own_file: Path) -> None:
    own_file.write_text("[mine]\ninput = 1\noutput = 1\n")
    calls = [ModelCall(2, 1, 1, 0, "mine"), ModelCall(2, 1, 1, 0, "offline"), ModelCall(0, model="offline")]
    cost = current_prices().cost(usage_by_model(calls))
    assert cost.amount == pytest.approx(2 / MILLION) and cost.unpriced_calls == 2


@pytest.mark.parametrize(
    ("usage", "call"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, (14, 10, 4, 0)),
        ({"input_tokens": 10, "output_tokens": 4, "input_token_details": {"cache_read": 8}}, (14, 10, 4, 8)),
        ({"prompt_tokens": 5, "cached_prompt_tokens": 9}, (5, 5, 0, 5)),
        ({"total_tokens": 7}, (7, 0, 0, 0)),
        ({"total_tokens": -7, "prompt_tokens": "3"}, (0, 0, 0, 0)),
        ({"total_tokens": 10**30}, (2**40, 0, 0, 0)),
    ],
)
def test_usage_is_read_as_providers_name_it(usage: dict[str, object], call: tuple[int, ...]) -> None:
    assert call_of(usage, "m")[:4] == call
