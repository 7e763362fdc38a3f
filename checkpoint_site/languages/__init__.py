"""The languages that users can choose.

A folder has the number format of a language for which Django's differs from that of browsers.
"""

from pathlib import Path

# By the name of their catalogue's folder. A page names its language, so only complete catalogues are listed.
COMPLETE: tuple[str, ...] = ("ar", "de", "es", "fr", "ja", "ko", "pt_BR", "zh_Hans")
# Each in the language itself.
NAMES = {
    "ar": "العربية",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "ja": "日本語",
    "ko": "한국어",
    "pt_BR": "Português (Brasil)",
    "zh_Hans": "简体中文",
}


def languages_in(locales: Path) -> list[tuple[str, str]]:
    """Return the code and name of English and of each complete language that is compiled in this folder."""
    compiled = [name for name in COMPLETE if (locales / name / "LC_MESSAGES" / "django.mo").is_file()]
    return [("en", "English"), *((name.lower().replace("_", "-"), NAMES[name]) for name in compiled)]
