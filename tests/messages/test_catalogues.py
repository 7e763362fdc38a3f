"""What ``make messages`` writes into the catalogues, and the mistakes that ``make check`` finds."""

from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from scripts.catalogues.checks import mistakes
from scripts.catalogues.compiling import isolated
from scripts.catalogues.extraction import extracted
from scripts.catalogues.files import updated

TAGGED = "<b>%(name)s</b> waits"
PLURAL = ("%(count)s task of %(name)s", "%(count)s tasks of %(name)s")
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
