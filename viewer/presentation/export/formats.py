"""The formats of an export, each as one file."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _

from viewer.models import Run
from viewer.presentation.export.document import run_document
from viewer.presentation.export.pictures import lineage_dot, lineage_svg

T = TypeVar("T")
_BACKTICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Format(Generic[T]):
    """A format: its label, file name extension, media type, and the function that writes it."""

    label: str | Promise
    ending: str
    media_type: str
    write: Callable[[T], str]


def as_json(run: Run) -> str:
    """The document of a run."""
    return json.dumps(run_document(run), indent=2, ensure_ascii=False, default=str) + "\n"


def as_html(run: Run) -> str:
    """An HTML page without scripts that loads nothing."""
    document = run_document(run)
    context = {"document": document, "run": run, "exported_at": document["exported_at"]}
    # Made by our own template, which escapes what it shows.
    context["picture"] = mark_safe(lineage_svg(run))  # noqa: S308
    return render_to_string("export/run.html", context)


def as_markdown(run: Run) -> str:
    """The facts, inputs and outputs of a run. Texts are in code blocks, which keep them unchanged."""
    document = run_document(run)
    facts = document["run"]
    lines = [f"# {plain_line(facts['name'])}", ""]
    lines += [
        f"- {name.replace('_', ' ')}: {plain_line(value)}"
        for name, value in facts.items()
        if _is_shown(value)
    ]
    for branch in document["branches"]:
        lines += ["", f"## {plain_line(branch['name'])}", "", f"{plain_line(branch['progress'])}"]
        if not branch["is_readable"]:
            lines += ["", "Its newest checkpoint cannot be read."]
        if unreadable := branch.get("unreadable"):
            lines += ["", f"Cannot be decoded: {', '.join(map(plain_line, unreadable))}."]
        for section in ("inputs", "state", "outputs", "messages"):
            for part in branch.get(section, ()):
                lines += ["", f"### {section}: {plain_line(part['name'])}", "", code_block(part["value"])]
    lines += [
        "",
        "## Checkpoints",
        "",
        "| id | branch | parent | trigger | tokens |",
        "|---|---|---|---|---|",
    ]
    for row in document["checkpoints"]:
        cells = (row["id"], row["branch"], row["parent"] or "", row["label"], row["tokens"])
        lines.append("| " + " | ".join(plain_line(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _is_shown(value: Any) -> bool:
    return value not in (None, "", [], 0) and not isinstance(value, list)


def plain_line(value: Any) -> str:
    """The value on one line, with the syntax of Markdown and HTML escaped."""
    text = " ".join(str(value).split())
    return re.sub(r"([\\`*_\[\]<>#&~!])", r"\\\1", text)


def code_block(value: Any) -> str:
    """The value as a code block whose fence is longer than any in it."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"


FORMATS: Mapping[str, Format[Run]] = {
    "html": Format(_("HTML page"), "html", "text/html", as_html),
    "markdown": Format(_("Markdown"), "md", "text/markdown", as_markdown),
    "json": Format(_("JSON"), "json", "application/json", as_json),
    "dot": Format(_("DOT for Graphviz"), "dot", "text/vnd.graphviz", lineage_dot),
    "svg": Format(_("SVG picture"), "svg", "image/svg+xml", lineage_svg),
}


def file_name(run: Run, wanted: Format[Run]) -> str:
    """A file name that every system accepts."""
    name = re.sub(r"[^\w.-]+", "_", f"{run}-{run.key}").strip("._")[:80] or "run"
    return f"{name}.{wanted.ending}"
