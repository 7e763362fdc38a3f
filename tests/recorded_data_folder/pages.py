"""Prints the pages at the addresses on standard input, as JSON: each with its status and its visible text."""

import html
import json
import os
import re
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")


def main() -> None:
    """Log in as the recorded user, and follow redirects from addresses that have moved."""
    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(HTTP_HOST=settings.ALLOWED_ORIGINS[0].partition("://")[2])
    client.force_login(User.objects.get(username="owner"), "django.contrib.auth.backends.ModelBackend")
    found = {}
    for address in json.load(sys.stdin):
        response = client.get(address, follow=True)
        content = b"".join(response) if response.streaming else response.content
        found[address] = [response.status_code, visible_text(content.decode())]
    print(json.dumps(found))


def visible_text(page: str) -> str:
    """The text of a page, and the values of its fields, on one line."""
    values = re.findall(r'\bvalue="([^"]*)"', page)
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return html.unescape(" ".join(f"{text} {' '.join(values)}".split()))


if __name__ == "__main__":
    main()
