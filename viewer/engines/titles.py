"""A short title for a unit that has only a description."""

import re

MAX_TITLE = 80
_SENTENCE_END = re.compile(r"[.!?:;](?=\s|$)|[\u3002\uff01\uff1f]")  # including full-width forms


def short_title(text: str) -> str:
    """The text on one line if that is short, else its first sentence, else its first words and an ellipsis.

    The title has at most ``MAX_TITLE`` characters.
    """
    line = " ".join(text.split())
    if len(line) <= MAX_TITLE:
        return line
    end = _SENTENCE_END.search(line, 1, MAX_TITLE)
    if end:
        return line[: end.start() if end[0] in ".:;\u3002" else end.end()]
    words = line[:MAX_TITLE].rpartition(" ")[0] or line[: MAX_TITLE - 1]
    return f"{words.rstrip(' ,;:-')}…"
