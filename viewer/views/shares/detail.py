"""A checkpoint as a share link shows it: its contents, without actions, its source and its neighbours."""

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext

from viewer.annotations import annotations_in
from viewer.engines import engine_of
from viewer.engines.protocol import Contents, Engine
from viewer.importing import NotReadable, body_of, contents_at
from viewer.models import Checkpoint, Run
from viewer.presentation.run.colors import branch_colours
from viewer.views.checkpoints import SHARED_TABS, contents_before, event_page, reads_markdown, tab_choice

# The tabs that every engine has and a share link shows. The raw record is left out.
COMMON_TABS = ("overview", "events")


def shared_detail(
    request: HttpRequest, run: Run, checkpoint: Checkpoint | None, *, compares: bool
) -> dict[str, Any]:
    """Return the context of the checkpoint's selected tab.

    ``compares`` if the link covers the checkpoint that it is compared with, too.
    """
    engine = engine_of(run.location)
    context: dict[str, Any] = {"run": run, "checkpoint": checkpoint, "engine": engine}
    context["at"] = checkpoint.checkpoint_id if checkpoint else ""
    if checkpoint is None:
        return context
    try:
        body = body_of(checkpoint)
    except NotReadable:
        # The reason may name a path.
        body, context["not_readable"] = {}, True
    contents = contents_at(checkpoint, body)
    context |= tab_choice(request, engine, contents, shareable_tabs(engine))
    context["reads_markdown"] = reads_markdown(request, engine, contents)
    context["is_too_deep"] = not body and "not_readable" not in context
    context |= {"contents": contents, "colours": branch_colours(run)}
    context["annotation_of_checkpoint"] = annotations_in(run).checkpoints.get(checkpoint.checkpoint_id)
    context |= _engine_tab(engine, context["tab"], checkpoint if compares else None, contents)
    if context["tab"] == "events":
        context |= event_page(request, contents.events)
    return context


def shareable_tabs(engine: Engine[Any]) -> dict[str, str]:
    """Return the label of each tab that a share link may show."""
    labels = {name: str(SHARED_TABS[name]) for name in COMMON_TABS}
    return labels | {tab.name: gettext(tab.label) for tab in engine.tabs if tab.is_shareable}


def _engine_tab(
    engine: Engine[Any], name: str, checkpoint: Checkpoint | None, contents: Contents
) -> dict[str, Any]:
    """Return the template and context of a tab of the engine's own; empty for another tab."""
    engine_tab = next((tab for tab in engine.tabs if tab.name == name and tab.is_shareable), None)
    if engine_tab is None:
        return {}
    before = contents_before(engine, engine_tab, checkpoint) if checkpoint else None
    return {"tab_template": engine_tab.template, **engine.tab_context(name, contents, before)}
