"""The languages that users can choose."""

from pathlib import Path

# By the name of their catalogue's folder. A page names its language, so only complete catalogues are listed.
COMPLETE: tuple[str, ...] = ("ar", "ko", "pt_BR")
# Each in the language itself.
NAMES = {"ar": "العربية", "ko": "한국어", "pt_BR": "Português (Brasil)"}


def languages_in(locales: Path) -> list[tuple[str, str]]:
    """Return the code and name of English and of each complete language that is compiled in this folder."""
    compiled = [name for name in COMPLETE if (locales / name / "LC_MESSAGES" / "django.mo").is_file()]
    return [("en", "English"), *((name.lower().replace("_", "-"), NAMES[name]) for name in compiled)]
