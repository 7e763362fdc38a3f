"""Words from rooms that know no Django: English where they are written, translated where they are shown."""


class Worded(Exception):
    """Its message is for a person: ``text``, filled with ``values``. viewer/wording.py translates it."""

    def __init__(self, text: str, **values: object) -> None:
        super().__init__(text % values)
        self.text, self.values = text, values


def gettext_noop(text: str) -> str:
    """The text itself, marked for whoever collects what is to be translated."""
    return text
