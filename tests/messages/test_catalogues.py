"""What ``make messages`` writes into the catalogues, and the mistakes that ``make check`` finds."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from scripts.catalogues.checks import mistakes
from scripts.catalogues.compiling import isolated
from scripts.catalogues.extraction import extracted
from scripts.catalogues.files import read_catalogue, updated

TAGGED = "<b>%(name)s</b> waits"
PLURAL = ("%(count)s task of %(name)s", "%(count)s tasks of %(name)s")
WORD = re.compile(r"(?<![(\w])[a-z]{3,}")
# Values that are no numbers, although a verb that looks like a noun may follow them.
TEXT_VALUES = {"amount", "database", "host", "location", "name", "path", "thread", "unit", "url"}
# Their number is a constant above 1, or more than one.
FIXED_NUMBERS = {
    "Giving up: the %(program)s ended %(count)s times, each within %(seconds)s s of its start.",
    "Only the newest %(count)s checkpoints of this run, called runs included, are listed.",
    "%(count)d runs are selected. At most %(most)d can start at once.",
    "%(count)s results or more, newest first",
    "That is %(count)s branches. At most %(most)s can start at once.",
    "The recorded commit cannot be checked out: it has more than %(max_count)d files.",
    "This would make %(count)d calls. The limit is %(most)d.",
    "This would start %(count)d branches. The limit is %(most)d.",
}
FORMS = ("لا مهام لـ %(name)s", "مهمة %(name)s", "مهمتا %(name)s", *("%(count)s لـ %(name)s",) * 3)


def catalogue(**translations: str | tuple[str, ...]) -> Catalog:
    """Return a catalogue with these translations of the tagged and the plural text."""
    catalog = Catalog(locale="ar")
    catalog.add(TAGGED, translations.get("tagged", "<b>%(name)s</b> ينتظر"))
    catalog.add(PLURAL, translations.get("plural", FORMS))
    return catalog


def found(catalog: Catalog, *, must_be_complete: bool = True) -> list[str]:
    return list(mistakes(catalogue(), catalog, "ar", must_be_complete=must_be_complete))


def test_a_right_catalogue_has_no_mistakes() -> None:
    assert found(catalogue()) == []


@pytest.mark.parametrize(
    ("tagged", "mistake"),
    [
        ("", "not translated"),
        ("<b>%(nam)s</b>", "other placeholders"),
        ("<b>ينتظر</b>", "other placeholders"),
        ("<i>%(name)s</i>", "other tags"),
        ("<b>%(name)s", "other tags"),
        ('<b>%(name)s</b> "ينتظر"', "one of"),
        ("<b>%(name)s</b> ينتظر ", "white space"),
    ],
)
def test_a_wrong_translation_is_found(tagged: str, mistake: str) -> None:
    (line,) = found(catalogue(tagged=tagged))
    assert mistake in line


@pytest.mark.parametrize("plural", [("", *FORMS[1:]), FORMS[:2], (*FORMS[:5], "مهام")])
def test_each_plural_form_is_needed_with_its_values(plural: tuple[str, ...]) -> None:
    assert found(catalogue(plural=plural), must_be_complete=False)


def test_missing_and_unused_texts_are_found() -> None:
    other = Catalog(locale="ar")
    other.add("Former text", "نص")
    assert len(found(other, must_be_complete=False)) == 3


def test_an_update_keeps_translations_of_unchanged_texts_only() -> None:
    former = catalogue()
    texts = Catalog()
    texts.add(TAGGED)
    texts.add((PLURAL[0], "%(count)s new tasks of %(name)s"))
    catalog = updated(texts, former, "ar")
    assert [message.string for message in catalog if message.id] == [former[TAGGED].string, ("",) * 6]


def test_texts_of_templates_and_modules_are_extracted(tmp_path: Path) -> None:
    for name, text in {
        "templates/page.html": '<p>\n  {% translate "Title" %}</p>{% blocktranslate count n=x %}{{ n }} a'
        "{% plural %}{{ n }} b{% endblocktranslate %}",
        "viewer/module.py": 'MESSAGES = {"code": _("First " "half")}\nx = pgettext("verb", "Fork")',
    }.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
    catalog = extracted(tmp_path)
    ids = {message.id: message.context for message in catalog if message.id}
    assert ids == {"Title": None, ("%(n)s a", "%(n)s b"): None, "First half": None, "Fork": "verb"}


def test_values_are_isolated_outside_of_tags() -> None:
    text = '<a href="%(url)s">%(name)s</a>: %(count)d'
    assert isolated(text) == '<a href="%(url)s">\u2068%(name)s\u2069</a>: %(count)d'


def without_plural(texts: Catalog) -> Iterator[str]:
    """Yield each text without plural forms whose number is followed by a noun that other texts count.

    The limits named ``most`` are above 1. Where a setting can make one of them 1, its unit is ``s``.
    """
    pairs = [text.id for text in texts if isinstance(text.id, tuple)]
    words = {word for one, many in pairs for word in set(WORD.findall(many)) - set(WORD.findall(one))}
    nouns = "|".join(word for word in words if word.endswith("s"))
    counted = re.compile(rf"%\((\w+)\)[ds] (?:(?!of\b)[a-z]+ ){{0,2}}(?:{nouns})\b")
    for text in (message.id for message in texts):
        found = counted.search(text) if isinstance(text, str) else None
        is_number = found and (found[1] not in TEXT_VALUES | {"most"} or found[0].endswith(" seconds"))
        if isinstance(text, str) and is_number and text not in FIXED_NUMBERS:
            yield text


def test_texts_with_a_number_have_plural_forms() -> None:
    # Each catalogue has the same texts.
    assert list(without_plural(read_catalogue("ja"))) == []


def test_a_number_without_plural_forms_is_found() -> None:
    texts = Catalog()
    texts.add(("%(count)s checkpoint", "%(count)s checkpoints"))
    for text in ("%(done)s of %(total)s checkpoints are read", "Checkpoints: %(total)s", "a text"):
        texts.add(text)
    assert list(without_plural(texts)) == ["%(done)s of %(total)s checkpoints are read"]
