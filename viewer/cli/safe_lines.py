"""Text of others as one line that neither a terminal nor a log takes for more than that."""

import re

# Characters that a terminal obeys or that break or reorder a line: controls, line and paragraph separators,
# halves of surrogate pairs, and every sign that changes the direction of text.
UNSAFE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufff9-\\ufffb\\ud800-\\udfff]"
)


def one_line(text: str) -> str:
    """The text as one line that a terminal obeys in nothing: ``\\n`` and its like are written out."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
