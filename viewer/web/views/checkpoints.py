"""The pages of a checkpoint, its values as a tree and their history, and exports of runs."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.utils.http import content_disposition_header
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST

from viewer.engines import engine_of
from viewer.engines.contents import EVENTS_A_PAGE, Tab
from viewer.engines.protocol import Contents, Engine, kind_of
from viewer.engines.recorded_calls import NotReproducible
from viewer.host_requests import ImportRun, NotReadable, ask
from viewer.launching.preflight import code_graph_of
from viewer.launching.start import published_as
from viewer.messages.translation import translate
from viewer.models import Annotation, Checkpoint, Right, Run
from viewer.presentation.comparison import history_of
from viewer.presentation.export import ALL_FORMATS, file_name
from viewer.presentation.listing import MAX_QUERY
from viewer.presentation.run.branches import branch_colours, is_failure, origin_of
from viewer.presentation.run.graph import unit_graph_of
from viewer.records.annotations import Discussed, annotations_in, comments_about
from viewer.records.audit import Audited, opens
from viewer.records.bodies import contents_at, shown_body, stored_body, stored_bytes
from viewer.records.lineage.graphs import NoLayout
from viewer.records.permissions import requires
from viewer.records.run_rows import branch_status
from viewer.validation import number_in
from viewer.web.launch.prefilled import editable_parts_of, is_runnable
from viewer.web.views.jobs import asked_context
from viewer.web.views.launches import is_from_our_page


@requires(Right.VIEW)
@require_GET
def show_history(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the changes of ``?part=`` to htmx, from the ancestor ``?older=`` on; redirect anybody else."""
    checkpoint = get_object_or_404(Checkpoint.objects.select_related("run__location"), pk=pk)
    if not request.headers.get("HX-Request"):
        query = {**request.GET.dict(), "at": checkpoint.checkpoint_id}
        query.pop("older", None)
        return redirect(f"{checkpoint.run.get_absolute_url()}?{urlencode(query)}")
    start = number_in(request.GET.get("older", ""))
    first = get_object_or_404(checkpoint.run.checkpoints, pk=start) if start else checkpoint
    found = history_of(first, request.GET.get("part", ""))
    context = {"checkpoint": checkpoint, "run": checkpoint.run, "history": found, "first": first}
    context |= {"colours": branch_colours(checkpoint.run), "part": request.GET.get("part", "")}
    return render(request, "history/_changes.html", context)


# One checkpoint: its detail next to the list, and its stored copy as a download.


# The tabs that engines share.
SHARED_TABS: dict[str, str | Promise] = {"overview": _("Overview"), "events": _("Events"), "raw": _("Raw")}
# Maximum numbers of characters of outputs that one page renders as Markdown: unasked, and on request. Hostile
# Markdown of the first length takes a second.
MAX_MARKDOWN, MAX_REQUESTED_MARKDOWN = 50_000, 200_000


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect to the checkpoint in its run."""
    return redirect(get_object_or_404(Checkpoint.objects.select_related("run"), pk=pk))


@requires(Right.VIEW)
@require_GET
def raw(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the redacted copy as a download, which a browser never displays; the reason if there is none."""
    checkpoint = get_object_or_404(Checkpoint.objects.select_related("location", "stored_copy"), pk=pk)
    try:
        data = stored_bytes(checkpoint)
    except NotReadable as error:
        return HttpResponse(translate(error), status=404, content_type="text/plain; charset=utf-8")
    name = re.sub(r"[^\w.-]+", "_", checkpoint.checkpoint_id).strip("._") or "checkpoint"
    return download(data, f"{name}.json", "application/json")


def selected_checkpoint(run: Run, at: str, branch: str = "") -> Checkpoint | None:
    """Return the checkpoint of the address, or else the newest of the branch or run.

    None where it is not there.
    """
    rows = run.checkpoints.select_related("location", "parent", "stored_copy").order_by("-row")
    if at:
        return rows.filter(checkpoint_id=at).first()
    return (rows.filter(branch=branch).first() if branch else None) or rows.first()


def detail_context(request: HttpRequest, run: Run, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Return the template context of the checkpoint's selected tab."""
    engine = engine_of(run.location)
    context: dict[str, Any] = {
        "run": run,
        "location": run.location,
        "checkpoint": checkpoint,
        "at": checkpoint.checkpoint_id if checkpoint else "",
        "is_open": bool(request.GET.get("at")),
        "opened_part": request.GET.get("part", ""),
    }
    if checkpoint is None:
        return context
    try:
        body, context["copy_reason"] = shown_body(checkpoint)
    except NotReadable as error:
        body, context["not_readable"] = {}, error.message
    contents = contents_at(checkpoint, body)
    context |= _surroundings(run, checkpoint, engine, contents)
    labels = {**SHARED_TABS, **{tab.name: gettext(tab.label) for tab in engine.tabs}}
    context |= tab_choice(request, engine, contents, labels, context["called_runs"])
    context["reads_markdown"] = reads_markdown(request, engine, contents)
    is_too_deep = not body and "not_readable" not in context
    context |= {"contents": contents, "is_too_deep": is_too_deep, "colours": branch_colours(run)}
    context |= {"engine": engine, **_engine_tab(request, engine, context["tab"], checkpoint, contents)}
    if "not_readable" not in context:
        context |= asked_context(checkpoint, contents)
        context["editable_parts"] = editable_parts_of(request.user, checkpoint, contents)
    if is_failure(checkpoint.trigger) and not context.get("shows_failure"):
        context["failure"] = contents.failure
    if context.get("shows_lineage") or context["tab"] == "overview":
        context["children"] = checkpoint.children.order_by("row")[:20]
    if context["tab"] == "raw" and body:
        node, find = (request.GET.get(name, "") for name in ("node", "find"))
        context["tree"] = json_tree(body, node, find.strip()[:MAX_QUERY])
    if context["tab"] == "events":
        context |= event_page(request, contents.events)
    return context


def _surroundings(
    run: Run, checkpoint: Checkpoint, engine: Engine[Any], contents: Contents
) -> dict[str, Any]:
    """What can be done with a checkpoint, and what belongs to it, whichever tab is selected."""
    kind = kind_of(engine, checkpoint.entity)
    is_waiting = branch_status(checkpoint) == Run.Status.WAITING
    subject = Discussed(checkpoint.location, run, checkpoint.checkpoint_id)
    return {
        "is_runnable": is_runnable(checkpoint, contents),
        # Called by the menu, which only those see who can run.
        "has_calls": lambda: any(True for _call in engine.recorded_calls(contents)),
        "is_publishable": checkpoint.is_scratch and bool(kind.fork_targets),
        "is_resumable": (not kind.resumes_last_only or checkpoint.is_last)
        and (checkpoint.is_scratch or not checkpoint.location.is_only_read)
        and (not kind.resumes_only_answered or is_waiting),
        "published": published_as(checkpoint),
        "annotations": annotated_parts(run, checkpoint),
        # Called if several people use this server.
        "open_discussions_here": lambda: comments_about(subject).open_discussions().count(),
        "called_runs": run.called_runs.filter(called_from=checkpoint.checkpoint_id).order_by("pk"),
    }


def annotated_parts(run: Run, checkpoint: Checkpoint) -> list[tuple[str, Annotation]]:
    """Return what people wrote about the checkpoint and its branch."""
    written = annotations_in(run)
    parts = (
        ("checkpoint", written.checkpoints.get(checkpoint.checkpoint_id)),
        ("branch", written.branches.get(checkpoint.branch)),
    )
    return [(about, one) for about, one in parts if one]


def tab_choice(
    request: HttpRequest,
    engine: Engine[Any],
    contents: Contents,
    labels: Mapping[str, str | Promise],
    called_runs: Iterable[Run] = (),
) -> dict[str, Any]:
    """Return the tabs with these labels that have something to show, in the engine's order.

    ``kept_tab`` is the requested one, even if it is empty here: the next checkpoint opens on it, and with the
    same ``kept_reading``.
    """
    empty = {tab.name for tab in engine.tabs if tab.shows_called_runs and not any(called_runs)}
    empty |= {name for name in engine.tab_order if engine.is_tab_empty(name, contents)}
    tabs = {name: labels[name] for name in engine.tab_order if name in labels and name not in empty}
    asked, first = request.GET.get("tab", ""), next(iter(tabs), "")
    kept = asked if asked in labels and asked != engine.tab_order[0] else ""
    reading = "as=source" if request.GET.get("as") == "source" else ""
    selected = asked if asked in tabs else first
    return {"tabs": tabs, "tab": selected, "kept_tab": kept, "kept_reading": reading}


def reads_markdown(request: HttpRequest, engine: Engine[Any], contents: Contents) -> bool:
    """Return whether texts are shown as Markdown, unless they are too long or their source is requested."""
    asked = request.GET.get("as", "")
    values = (part.value for part in engine.followed_parts(contents))
    length = sum(len(value) for value in values if isinstance(value, str))
    return asked != "source" and length <= (MAX_REQUESTED_MARKDOWN if asked == "markdown" else MAX_MARKDOWN)


def _engine_tab(
    request: HttpRequest, engine: Engine[Any], tab: str, checkpoint: Checkpoint, contents: Contents
) -> dict[str, Any]:
    """The template of a tab that the engine adds, and what it is given; empty for another tab."""
    engine_tab = next((one for one in engine.tabs if one.name == tab), None)
    if engine_tab is None:
        return {}
    before = contents_before(engine, engine_tab, checkpoint)
    shown: dict[str, Any] = {"tab_template": engine_tab.template, "shows_lineage": engine_tab.shows_lineage}
    shown["shows_failure"] = engine_tab.shows_failure
    if engine_tab.shows_unit_graph:
        shown |= _unit_graph(request, checkpoint)
    return {**shown, **engine.tab_context(tab, contents, before)}


def contents_before(engine: Engine[Any], tab: Tab, checkpoint: Checkpoint) -> Contents | None:
    """Return the contents of the checkpoint that a tab compares with; None if it compares with none."""
    if not tab.compares_with:
        return None
    compared = checkpoint.parent if tab.compares_with == "parent" else origin_of(checkpoint)
    return engine.contents_of(stored_body(compared)) if compared else None


def _unit_graph(request: HttpRequest, checkpoint: Checkpoint) -> dict[str, Any]:
    """The graph that the project's code defines, if it has been asked, else the one that the rows show."""
    code = code_graph_of(checkpoint.run, request.GET.get("entry_point", ""))
    shown: dict[str, Any] = {"code_graph": code}
    # Importing the project's code needs a click, or a page of ours that led here.
    shown["asks_on_load"] = code is not None and code.is_unchecked and is_from_our_page(request)
    try:
        shown["unit_graph"] = unit_graph_of(checkpoint.run, checkpoint, code.graph if code else None)
    except NoLayout as error:
        shown["no_layout"] = error.message
    return shown


@requires(Right.RUN)
@require_POST
def draw_graph(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the project's code for its graph, and redirect to the tab that shows it."""
    checkpoint = get_object_or_404(
        Checkpoint.objects.select_related("run__location__project", "run__parent"), pk=pk
    )
    wanted = request.POST.get("entry_point", "")
    code = code_graph_of(checkpoint.run, wanted, may_start=True, again=True)
    query = {"at": checkpoint.checkpoint_id, "tab": request.POST.get("tab", "")}
    if code and code.entry_point:
        query["entry_point"] = code.entry_point
    return redirect(f"{checkpoint.run.get_absolute_url()}?{urlencode(query)}")


def event_page(request: HttpRequest, events: Sequence[Any]) -> dict[str, Any]:
    """Return one page of the timeline, by default without internal events."""
    external = [event for event in events if not event.is_internal]
    shows_internal = request.GET.get("internal") == "1"
    shown = list(events) if shows_internal else external
    first = number_in(request.GET.get("event", "")) or 0
    return {
        "events": shown[first : first + EVENTS_A_PAGE],
        "began_at": events[0].at if events else None,
        "earlier": max(first - EVENTS_A_PAGE, 0) if first else None,
        "later": first + EVENTS_A_PAGE if first + EVENTS_A_PAGE < len(shown) else None,
        "internal_count": len(events) - len(external),
        "shows_internal": shows_internal,
        "event_total": len(shown),
    }


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


# A run as a file, and the response of every download.


@requires(Right.VIEW)
@require_GET
def export_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return a run in a format as a download, which a browser never displays here."""
    if (wanted := ALL_FORMATS.get(request.GET.get("format", "html"))) is None:
        raise Http404
    run = get_object_or_404(Run.objects.select_related("location__project", "parent"), uid=uid)
    opens(Audited.RUN, run.uid, request.GET.get("format", "html"))
    if ask(ImportRun(run.pk)).is_news:
        run.refresh_from_db()
    try:
        text = wanted.write(run)
    except NotReproducible as error:
        messages.error(request, translate(error))
        return redirect(run)
    return download(text, file_name(run, wanted), f"{wanted.media_type}; charset=utf-8")


def download(data: str | bytes, name: str, media_type: str) -> HttpResponse:
    """Return the response with this file, which a browser saves and never displays."""
    response = HttpResponse(data, content_type=media_type)
    response["Content-Disposition"] = content_disposition_header(True, name)
    response["X-Content-Type-Options"] = "nosniff"
    return response
