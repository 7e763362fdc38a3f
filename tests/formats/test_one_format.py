"""Numbers, sizes, durations and times have one format each, which ``viewer/formats`` writes."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.utils import translation

from viewer.formats import count_text, duration, moment_text, short_number, short_size

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
# A time for a machine: an element's datetime, a script's seconds, and the value of a field. Exports use UTC.
MACHINE = ("'c'", "'U'", r"'Y-m-d\TH:i'", '"j M Y, H:i O"')
FORMATTING = re.compile(r"\b(number_format|date_format|time_format|dateformat|strftime)\b|\{[^{}]*:,\}")
# Readers do not import Django, and a day's budget is a value of a field, not a text.
OTHERS = (
    "viewer/formats.py",
    "viewer/stores/",
    "viewer/runners/",
    "viewer/engines/",
    "viewer/migrations/",
    "viewer/host/locations/importing.py",
)
# The example of a field's value.
EXAMPLE = "viewer/launching/options.py"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_a_template_formats_nothing_itself(path: Path) -> None:
    text = path.read_text()
    own = [found for found in re.findall(r"\|(?:date|time):(\S+?)(?=[|} ]|$)", text) if found not in MACHINE]
    assert [found for found in own if not found.startswith('"j')] == []
    assert not re.search(r"floatformat:.0g|filesizeformat|intcomma", text)
    for options, block in re.findall(r"{% blocktranslate([^%]*)%}(.*?){% endblocktranslate %}", text, re.S):
        counter = re.search(r"(?<![|\w])count (\w+)=", options)
        # The time to wait for another try is a small number.
        if counter and counter[1] not in ("wait", "seconds"):
            assert f"{{{{ {counter[1]} }}}}" not in block, block


def test_no_other_module_formats_numbers_or_times() -> None:
    found = [
        f"{name}: {line.strip()}"
        for path in sorted((ROOT / "viewer").rglob("*.py"))
        if not (name := str(path.relative_to(ROOT))).startswith(OTHERS) and name != EXAMPLE
        for line in path.read_text().splitlines()
        if FORMATTING.search(line)
    ]
    assert found == []


def test_formats_are_those_of_the_language() -> None:
    with translation.override("de"):
        assert (count_text(2001), short_number(5400), short_size(1_258_291)) == ("2.001", "5,4k", "1,2 MB")
        assert duration(1.84) == "1,8 s"
    with translation.override("pt-br"):
        assert moment_text(datetime(2026, 1, 31, 14, 5, 9, tzinfo=UTC), "full").endswith("14:05:09 UTC")


def test_a_time_has_its_zone_where_it_is_whole() -> None:
    at = datetime(2026, 1, 31, 14, 5, 9, tzinfo=UTC)
    assert moment_text(at, "full") == "31 Jan 2026, 14:05:09 UTC"
    assert moment_text(at, "day_and_time") == "31 Jan, 14:05"
    assert moment_text(at, "clock") == "14:05:09"
