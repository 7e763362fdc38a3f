"""A text without its secrets. Each rule tells the spans of what it finds; these are then cut out together."""

import zlib

from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.marker import MARKER
from viewer.redaction.patterns import Span, merged
from viewer.redaction.rules.credentials import credential_spans
from viewer.redaction.rules.keywords import may_hold_secret
from viewer.redaction.rules.named_values import named_spans
from viewer.redaction.rules.pairs import pair_spans
from viewer.redaction.rules.private_keys import block_spans
from viewer.redaction.rules.urls import address_spans
from viewer.redaction.rules.vendor_tokens import token_spans

_MARKER = MARKER.encode()
# No rule finds anything in fewer bytes.
MIN_BYTES = 6


def spans_in(data: bytes) -> list[Span]:
    """The spans of the secrets in a UTF-8 text, in order."""
    if not may_hold_secret(data):
        return []
    spans = [*token_spans(data), *block_spans(data), *address_spans(data), *credential_spans(data)]
    spans += named_spans(data)
    spans += pair_spans(data)
    return merged(span for span in spans if _MARKER not in data[span[0] : span[1]]) if spans else spans


def without_spans(data: bytes, spans: list[Span]) -> bytes:
    """The text with the marker in place of these spans, which are in order."""
    parts: list[bytes] = []
    position = 0
    for start, end in spans:
        parts += (data[position:start], _MARKER)
        position = end
    parts.append(data[position:])
    return b"".join(parts)


def redact_text(text: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """The text without what looks like a secret in it, and without the known ones."""
    if len(text) < MIN_BYTES and not known:
        return text
    data = text.encode("utf-8", "surrogatepass")
    clean = known.hidden_in(data)
    if spans := spans_in(clean):
        clean = without_spans(clean, spans)
    return text if clean == data else clean.decode("utf-8", "surrogatepass")


def redacted_name(name: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """The name of a file or row without what looks like a secret in it, still another for another name."""
    shown = redact_text(name, known)
    return name if shown == name else f"{shown} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"
