"""Safe HTML from Markdown that a model wrote."""

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

# No images: loading one would reveal to its server who reads this, and when.
TAGS = {"a", "blockquote", "br", "code", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"} | {
    *("h1", "h2", "h3", "h4", "h5", "h6"),
    *("table", "tbody", "td", "th", "thead", "tr"),
}
# Hostile Markdown of this length takes a second to parse; a longer text is shown unformatted.
MAX_CHARACTERS = 50_000
PARSER = MarkdownIt("commonmark", {"html": False}).enable("table").enable("strikethrough").disable("image")


def as_html(text: str) -> SafeString:
    """Return sanitised HTML. HTML in the text is escaped; links send no referrer."""
    if len(text) > MAX_CHARACTERS:
        return format_html("<pre>{}</pre>", text)
    html = nh3.clean(
        PARSER.render(text),
        tags=TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(html)  # noqa: S308 - cleaned just above
