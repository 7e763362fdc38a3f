"""Finds mistakes in catalogues: what is missing, and translations that would break a page."""

import re
from collections import Counter
from collections.abc import Iterator

from babel.messages.catalog import Catalog, Message

from scripts.catalogues.files import plural_count

PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[a-z%]|\{\w+\}")
TAG = re.compile(r"</?[a-z][^>]*>")
# In an attribute or a page, these would end a value or begin a tag.
MARKUP = '"<>&'


def mistakes(texts: Catalog, catalog: Catalog, language: str, *, must_be_complete: bool) -> Iterator[str]:
    """Yield a line for each mistake of a catalogue of these texts."""
    expected = {(text.id, text.context): text for text in texts if text.id}
    stored = {(message.id, message.context): message for message in catalog if message.id}
    for key in expected.keys() - stored.keys():
        yield f"{language}: run make messages, this text is missing: {key[0]!r}"
    for key in stored.keys() - expected.keys():
        yield f"{language}: run make messages, this text is not used: {key[0]!r}"
    for key in expected.keys() & stored.keys():
        for mistake in _mistakes_of(stored[key], language, must_be_complete=must_be_complete):
            yield f"{language}: {mistake}: {key[0]!r}"


def _mistakes_of(message: Message, language: str, *, must_be_complete: bool) -> Iterator[str]:
    forms = (message.string,) if isinstance(message.string, str) else tuple(message.string or ("",))
    if message.fuzzy:
        yield "marked as fuzzy"
    if not any(forms):
        if must_be_complete:
            yield "not translated"
        return
    if not all(forms) or (not isinstance(message.id, str) and len(forms) != plural_count(language)):
        yield "a plural form is missing"
        return
    originals = (message.id,) if isinstance(message.id, str) else tuple(message.id)
    for number, form in enumerate(forms):
        yield from _mistakes_of_form(originals, form, is_last=number == len(forms) - 1)


def _mistakes_of_form(originals: tuple[str, ...], form: str, *, is_last: bool) -> Iterator[str]:
    whole = originals[-1]
    wanted, found = Counter(_placeholders(whole)), Counter(_placeholders(form))
    # A form for one or two may say its number in words.
    lacking = wanted - found
    if found.keys() - wanted.keys() or (lacking and (is_last or len(originals) == 1 or lacking.total() > 1)):
        yield f"other placeholders in {form!r}"
    if Counter(TAG.findall(whole)) != Counter(TAG.findall(form)):
        yield f"other tags in {form!r}"
    bare = TAG.sub("", form)
    if any(character in bare and character not in TAG.sub("", whole) for character in MARKUP):
        yield f"one of {MARKUP} in {form!r}"
    if (whole[:1].isspace(), whole[-1:].isspace()) != (form[:1].isspace(), form[-1:].isspace()):
        yield f"other white space at an end of {form!r}"


def _placeholders(text: str) -> list[str]:
    return [found[0] for found in PLACEHOLDER.finditer(text)]
