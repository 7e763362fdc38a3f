"""Redact texts. Each rule yields the spans of what it finds, which are then replaced together."""

import zlib

from viewer.redaction import MARKER
from viewer.redaction.credentials import credential_spans, private_key_spans, url_spans
from viewer.redaction.keywords import may_hold_secret
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.named_values import named_spans
from viewer.redaction.obscured import obscured_spans
from viewer.redaction.pairs import pair_spans
from viewer.redaction.patterns import TextSpan, anchored, merged, without_spans
from viewer.redaction.vendor_tokens import token_spans

_MARKER = MARKER.encode()
# A text without any sign or blank, in which only a token can be found.
_WORD = anchored(r"[A-Za-z0-9_\-]*+$")
# The shortest text in which a rule can find anything.
MIN_BYTES = 6


def spans_in(data: bytes) -> list[TextSpan]:
    """Return the spans of the secrets in a UTF-8 text, in order."""
    if not may_hold_secret(data):
        return []
    if _WORD.match(data):
        spans = list(token_spans(data))
    else:
        spans = [*_found_in(data), *obscured_spans(data, _found_in)]
    return merged(span for span in spans if _MARKER not in data[span[0] : span[1]]) if spans else spans


def _found_in(data: bytes) -> list[TextSpan]:
    """Return the spans that the rules find, in any order."""
    return [
        *token_spans(data),
        *private_key_spans(data),
        *url_spans(data),
        *credential_spans(data),
        *named_spans(data),
        *pair_spans(data),
    ]


def redact_text(text: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """Return the text without known secrets and without anything that is recognised as a secret."""
    if len(text) < MIN_BYTES and not known:
        return text
    data = text.encode("utf-8", "surrogatepass")
    clean = known.redacted_in(data)
    if spans := spans_in(clean):
        clean = without_spans(clean, spans)
    return text if clean == data else clean.decode("utf-8", "surrogatepass")


def redacted_name(name: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """Return the redacted name of a file or row. Different names stay different."""
    redacted = redact_text(name, known)
    return name if redacted == name else f"{redacted} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"
