"""Why a run is not begun."""

from forkline_runner.messages import english, words


class Refused(Exception):
    """Nothing has run and nothing was paid. The message tells why, and what to do; so do its ``words``."""

    def __init__(self, text: str, /, **values: object) -> None:
        self.words = words(text, **values)
        super().__init__(english(self.words))
