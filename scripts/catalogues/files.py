"""Reads, updates and writes the catalogues, so that the same texts give the same bytes."""

from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

from scripts.catalogues.extraction import ROOT

LOCALES = ROOT / "viewer" / "locale"
# As in Django's own catalogues, with which ours are merged.
PLURALS = {
    "ar": "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 :"
    " n%100>=11 && n%100<=99 ? 4 : 5;",
    "de": "nplurals=2; plural=(n != 1);",
    "es": "nplurals=3; plural=n == 1 ? 0 : n != 0 && n % 1000000 == 0 ? 1 : 2;",
    "fr": "nplurals=2; plural=(n > 1);",
    "ja": "nplurals=1; plural=0;",
    "ko": "nplurals=1; plural=0;",
    "pt_BR": "nplurals=2; plural=(n > 1);",
    "zh_Hans": "nplurals=1; plural=0;",
}


def catalogue_file(language: str) -> Path:
    """Return the path of a language's catalogue."""
    return LOCALES / language / "LC_MESSAGES" / "django.po"


def plural_count(language: str) -> int:
    """Return how many plural forms a language has."""
    return int(PLURALS[language].partition(";")[0].partition("=")[2])


def read_catalogue(language: str) -> Catalog:
    """Return the stored catalogue of a language; an empty one if there is none."""
    path = catalogue_file(language)
    if not path.exists():
        return empty_catalogue(language)
    with path.open("rb") as file:
        return read_po(file)


def empty_catalogue(language: str) -> Catalog:
    """Return a catalogue without texts, with our plural forms: Babel's own may be fewer."""
    catalog = Catalog(locale=language)
    catalog.mime_headers = [("Plural-Forms", PLURALS[language])]
    return catalog


def updated(texts: Catalog, former: Catalog, language: str) -> Catalog:
    """Return a catalogue of exactly these texts, with the former translations of those that are unchanged."""
    catalog = empty_catalogue(language)
    for text in texts:
        if text.id:
            kept = translation_of(former, text) or empty(text, language)
            comments = text.auto_comments
            catalog.add(text.id, kept, context=text.context, auto_comments=comments)
    return catalog


def translation_of(catalog: Catalog, text: Message) -> str | list[str] | tuple[str, ...] | None:
    """Return the translation of a text in a catalogue; None if it has none, or one of another text."""
    found = catalog.get(text.id, text.context)
    if found is None or found.fuzzy or found.id != text.id:
        return None
    return found.string or None


def empty(text: Message, language: str) -> str | tuple[str, ...]:
    """Return the translation of a text that has none."""
    return "" if isinstance(text.id, str) else ("",) * plural_count(language)


def write_catalogue(catalog: Catalog, language: str) -> None:
    """Write a language's catalogue: sorted, without locations and dates, which any edit would change."""
    written = BytesIO()
    write_po(written, catalog, width=0, no_location=True, sort_output=True, omit_header=True)
    path = catalogue_file(language)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_header(language).encode() + written.getvalue().rstrip(b"\n") + b"\n")


def _header(language: str) -> str:
    fields = {
        "Project-Id-Version": "Forkline",
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": PLURALS[language],
    }
    lines = [f'"{name}: {value}\\n"' for name, value in fields.items()]
    return "\n".join(['msgid ""', 'msgstr ""', *lines, "", ""])
