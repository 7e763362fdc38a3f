"""A browser of tests, whose pages do not depend on the layout of templates."""

import re
from typing import Any

from django.template import Context, Template
from django.test import Client, signals

from viewer.records.accounts import teammate


def render_and_record(template: Template, context: Context) -> str:
    """Render a template as Django's test environment does, for ``response.context``.

    Only the template of the page itself is recorded, not what it includes: each copies the context.
    """
    if context.template is template:
        signals.template_rendered.send(sender=template, template=template, context=context)
    return str(template.nodelist.render(context))


def compact(html: str) -> str:
    """Return the HTML without line breaks and indentation, except in ``pre`` and ``textarea``."""
    parts = re.split(r"(<(?:pre|textarea)\b.*?</(?:pre|textarea)>)", html, flags=re.S)
    parts[::2] = [re.sub(r"\s*\n\s*", "\n", part) for part in parts[::2]]
    parts[::2] = [re.sub(r"(?<=>)\n|\n(?=[<>])", "", part).replace("\n", " ") for part in parts[::2]]
    return "".join(parts)


class CompactClient(Client):
    """A test client that returns compact HTML, so that tests do not depend on a template's layout."""

    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            response.content = compact(response.content.decode()).encode()
        return response


def reading_client() -> Client:
    """A browser of a read-only user, next to that of the fixture ``runner``."""
    client = CompactClient()
    client.force_login(teammate("reader"))
    return client
