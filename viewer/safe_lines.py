"""Untrusted text as one line that cannot control a terminal or forge a line of a log."""

import re

# Characters that control a terminal, or break or reorder a line: control characters, line and paragraph
# separators, surrogates, and characters that change the direction of text.
UNSAFE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufff9-\\ufffb\\ud800-\\udfff]"
)


def one_line(text: str) -> str:
    """Return the text as one line. Control characters such as line feeds are written as escapes."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
