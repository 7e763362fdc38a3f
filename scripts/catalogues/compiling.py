"""Compiles the catalogues for gettext, after each change of them."""

import re
import tempfile
from pathlib import Path

TAG = re.compile(r"(<[^>]*>)")
VALUE = re.compile(r"%(?:\(\w+\))?[sr]")
LOCALES = Path(__file__).resolve().parents[2] / "viewer" / "locale"


def compile_catalogues(locales: Path = LOCALES) -> None:
    """Write a compiled catalogue, without texts that are not translated, next to each that has changed."""
    for source in sorted(locales.glob("*/LC_MESSAGES/django.po")):
        target = source.with_suffix(".mo")
        if not target.exists() or target.stat().st_mtime <= source.stat().st_mtime:
            _compile(source, target)


def isolated(text: str) -> str:
    """Return a text of a language written from right to left, with its values isolated.

    Without isolation, the slashes and brackets of a path would move to the wrong end of it.
    """
    parts = TAG.split(text)
    return "".join(part if TAG.fullmatch(part) else VALUE.sub("\u2068\\g<0>\u2069", part) for part in parts)


def _compile(source: Path, target: Path) -> None:
    # Imported only if needed: this runs before every make target.
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    with source.open("rb") as file:
        catalog = read_po(file)
    for message in list(catalog):
        forms = [message.string] if isinstance(message.string, str) else list(message.string or ())
        if message.id and not (forms and all(forms)):
            catalog.delete(message.id, message.context)
        elif message.id and catalog.locale and catalog.locale.text_direction == "rtl":
            message.string = tuple(map(isolated, forms)) if len(forms) > 1 else isolated(forms[0])
    # Processes that start at the same time read whole files only.
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as compiled:
        write_mo(compiled, catalog)
    Path(compiled.name).chmod(0o644)
    Path(compiled.name).replace(target)
