"""Secrets in URLs: passwords before a host, signatures in a query, and webhooks."""

from collections.abc import Iterator

from viewer.redaction.names.shapes import is_placeholder
from viewer.redaction.patterns import TextSpan, compiled

_LOGIN = compiled(
    r"[A-Za-z][A-Za-z0-9+.\-]{0,20}:(?://|\\/\\/)[^\s/@:\"'<>\\]{0,200}:([^\s/\"'<>\\]{1,500})@"
)
# A token before a host, without a user name.
_TOKEN_LOGIN = compiled(r"(?:https?|git|ssh):(?://|\\/\\/)([A-Za-z0-9_\-]{20,200})@")
_SIGNED = compiled(
    r"[?&;](?:amp;)?(?:[sS]ig|SIG|(?:[A-Za-z_\-]{0,12})[sS]ignature|X-Amz-Credential|X-Amz-Security-Token"
    r"|X-Goog-Credential|x-amz-credential|x-amz-security-token|AWSAccessKeyId|hmac|hdnts)=([^&\s\"'<>\\#]{8,})"
)
_WEBHOOK = compiled(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|/webhooks/\d{5,30}/|webhook\.office\.com/webhookb2/"
    r"|telegram\.org/(?:file/)?bot\d{5,20}:|hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/use/"
    r"|chat\.googleapis\.com/v1/spaces/[^\s?]{1,80}\?key=|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key="
    r"|open\.feishu\.cn/open-apis/bot/v2/hook/|webhook\.site/)([A-Za-z0-9/_\-@.]{6,300})"
)


def url_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of the secrets in URLs."""
    if b"@" in data:
        for found in _LOGIN.finditer(data):
            if not is_placeholder(found[1].decode("latin-1")):
                yield found.span(1)
        yield from (found.span(1) for found in _TOKEN_LOGIN.finditer(data))
    if b"=" in data:
        yield from (found.span(1) for found in _SIGNED.finditer(data))
    if any(part in data for part in (b"hook", b"telegram.org", b"googleapis", b"ifttt")):
        yield from (found.span(1) for found in _WEBHOOK.finditer(data))
