"""Values as pages show them: Markdown as safe HTML, and JSON as a tree."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

# Safe HTML from Markdown that a model wrote.


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


# A JSON value as a tree that starts at one of its nodes, and the matches of a search.


# Maximum nodes of a page, entries of one object or list, and characters of a text.
MAX_NODES, MAX_ENTRIES, MAX_TEXT = 400, 100, 2_000
# Maximum levels of a page. The template of a node includes itself, which takes a dozen calls for each level.
MAX_LEVELS = 20
MAX_MATCHES, MAX_EXCERPT = 50, 120
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(slots=True)
class TreeNode:
    """A value. ``pointer`` is its JSON Pointer, ``path`` the same path in the syntax of jq.

    ``children`` are the rendered ones; ``size`` counts all.
    """

    name: str
    pointer: str
    path: str
    kind: str
    text: str = ""
    size: int = 0
    is_open: bool = False
    children: list["TreeNode"] = field(default_factory=list)

    @property
    def hidden(self) -> int:
        """The number of entries of an open node that are not shown."""
        return self.size - len(self.children) if self.is_open else 0


@dataclass(frozen=True, slots=True)
class Match:
    """A value or key that contains the query. ``pointer`` is that of the object or list that holds it."""

    pointer: str
    path: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class JsonTree:
    """The tree from one node, the nodes above it, and the matches of a search."""

    root: TreeNode
    above: list[TreeNode]
    query: str
    matches: list[Match]


def json_tree(value: Any, pointer: str = "", query: str = "") -> JsonTree:
    """Return the tree of a decoded value from this node, or from its nearest ancestor if it is unknown."""
    above = [_node("", "", "", value)]
    for token in pointer.split("/")[1:]:
        entry = _entry(value, token.replace("~1", "/").replace("~0", "~"))
        if entry is None:
            break
        key, value = entry
        above.append(_child(above[-1], key, value))
    root = above.pop()
    _open(root, value)
    return JsonTree(root, above, query, list(_matches(root, value, query)) if query else [])


def _entry(value: Any, key: str) -> tuple[str | int, Any] | None:
    """Return a key of an object or a list with its value."""
    if isinstance(value, dict) and key in value:
        return key, value[key]
    if isinstance(value, list) and key.isdecimal() and len(key) < 10 and int(key) < len(value):
        return int(key), value[int(key)]
    return None


def _entries(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _child(parent: TreeNode, key: str | int, value: Any) -> TreeNode:
    pointer, path = _below(parent.pointer, parent.path, key)
    return _node(str(key), pointer, path, value)


def _below(pointer: str, path: str, key: str | int) -> tuple[str, str]:
    token = str(key).replace("~", "~0").replace("/", "~1")
    if isinstance(key, int):
        step = f"[{key}]"
    else:
        step = f".{key}" if _NAME.match(key) else '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return f"{pointer}/{token}", f"{path}{step}"


def _node(name: str, pointer: str, path: str, value: Any) -> TreeNode:
    if isinstance(value, dict | list):
        kind = "object" if isinstance(value, dict) else "list"
        return TreeNode(name, pointer, path, kind, size=len(value))
    if isinstance(value, str):
        text = value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
        return TreeNode(name, pointer, path, "text", text)
    if value is None or isinstance(value, bool):
        return TreeNode(name, pointer, path, "constant", {None: "null", True: "true", False: "false"}[value])
    return TreeNode(name, pointer, path, "number", str(value))


def _open(root: TreeNode, value: Any) -> None:
    """Add children breadth first, so that what is near the root is shown first."""
    waiting, count = deque([(root, value, 1)]), 0
    while waiting and count < MAX_NODES:
        node, value, level = waiting.popleft()
        # The node in the address is always opened.
        if not node.size or (node is not root and count + node.size > MAX_NODES):
            continue
        node.is_open = True
        for key, one in _entries(value):
            if len(node.children) == MAX_ENTRIES:
                break
            child = _child(node, key, one)
            node.children.append(child)
            if level < MAX_LEVELS:
                waiting.append((child, one, level + 1))
        count += len(node.children)


def _matches(root: TreeNode, value: Any, query: str) -> Iterator[Match]:
    """Yield up to MAX_MATCHES values and keys that contain the query, ignoring case."""
    wanted, count = query.casefold(), 0
    waiting = deque([(root.pointer, root.path, value)])
    while waiting:
        pointer, path, value = waiting.popleft()
        for key, one in _entries(value):
            below, path_below = _below(pointer, path, key)
            text = "" if isinstance(one, dict | list) else str(one)
            in_text = text.casefold().find(wanted)
            if in_text >= 0 or (isinstance(key, str) and wanted in key.casefold()):
                yield Match(pointer, path_below, _excerpt(text, max(in_text, 0)))
                count += 1
                if count == MAX_MATCHES:
                    return
            if isinstance(one, dict | list):
                waiting.append((below, path_below, one))


def _excerpt(text: str, at: int) -> str:
    start = max(at - MAX_EXCERPT // 3, 0)
    cut = " ".join(text[start : start + MAX_EXCERPT].split())
    return f"{'…' if start else ''}{cut}{'…' if start + MAX_EXCERPT < len(text) else ''}"
