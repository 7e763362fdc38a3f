"""Private keys: blocks of lines in PEM, SSH2 and PuTTY formats."""

from collections.abc import Iterator

from viewer.redaction.patterns import TextSpan, compiled

MAX_BLOCK = 16 * 1024
_BEGIN = (
    r"(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
    r"|PuTTY-User-Key-File-\d:)"
)
_CONTENT = r"(?:(?:\\r|\\n|\s)*[A-Za-z][A-Za-z\-]{2,20}: [^\r\n\\]{0,120})*[A-Za-z0-9+/=\s\\]*"
# One or more blocks, all but the last of which are without an end.
_BLOCKS = compiled(rf"(?:{_BEGIN}{_CONTENT})*({_BEGIN}){_CONTENT}")
_END = compiled(
    r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- END SSH2 ENCRYPTED PRIVATE KEY ----"
    r"|Private-MAC:[ \t]{0,8}[0-9a-f]{0,80}"
)


# The same in Base64, as Kubernetes has them: up to where its letters end.
_ENCODED = compiled(
    r"LS0tLS1CRUdJTiB(?:SU0Eg|FQyBQ|PUEVO|QUklW|FTkNS|EU0Eg|QR1Ag)[A-Za-z0-9+/=]*"
    r"(?:(?:\\n|\s){1,40}[A-Za-z0-9+/=]{40,})*"
)


def private_key_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of private keys: up to their last line, or as far as they have its characters."""
    if b"LS0tLS1CRUdJTiB" in data:
        yield from (found.span() for found in _ENCODED.finditer(data))
    if b"PRIVATE KEY" not in data and b"PuTTY-User-Key" not in data:
        return
    blocks = [(found.start(), found.end(1), found.end()) for found in _BLOCKS.finditer(data)]
    ends = [found.end() for found in _END.finditer(data)]
    following = 0
    for number, (start, after, content) in enumerate(blocks):
        next_begin = blocks[number + 1][0] if number + 1 < len(blocks) else len(data)
        while following < len(ends) and ends[following] <= after:
            following += 1
        limit = min(next_begin, after + MAX_BLOCK)
        has_end = following < len(ends) and ends[following] <= limit
        yield start, ends[following] if has_end else min(content, limit)
