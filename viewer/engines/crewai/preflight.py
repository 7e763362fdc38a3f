"""The components in a preflight report of a CrewAI run, and labels of components, losses and matches."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.entry_points import GONE, Component, PreflightLabels
from viewer.messages.catalog import gettext_noop as _

MAX_NAME = 120

# One component of each kind.
COMPONENTS = {
    "tools": _("tool"),
    "models": _("model"),
    "callbacks": _("callback"),
    "converters": _("converter"),
    "guardrails": _("guardrail"),
    "MCP servers": _("MCP server"),
    "platform apps": _("platform app"),
    "knowledge": _("knowledge"),
    "memory": _("memory"),
    "skills": _("skill"),
    "output files": _("output file"),
    "input files": _("input file"),
    "training files": _("training file"),
    "links": _("link to other tasks"),
    "conditions": _("condition"),
    "methods": _("method"),
    "tasks": _("task"),
}
# Losses that need a whole sentence.
LOSSES = {
    "unseen": _(
        "guardrails, callbacks and conditions that are functions: a checkpoint does not record whether there "
        "were any"
    ),
    "models": _("the project's own class of the model %(name)s: a plain model of this name is used instead"),
    "links": _("which tasks it reads: it receives the outputs of all earlier tasks"),
    "conditions": _("the condition for which it was skipped"),
    "tasks": _("the project's task %(name)s does not run: the checkpoint does not have it"),
    "providers": _(
        "the model %(name)s: its provider's package is not installed in the project's environment"
    ),
    "methods": _("the finished method %(name)s: the flow's class no longer has it"),
}
# A stored task or agent whose counterpart in the project is not certain.
MATCHES = {
    "agent": _("The checkpoint's agent “%(title)s” is"),
    "task": _("The checkpoint's task %(position)d, “%(title)s”, is"),
}
MATCH_REASONS = {
    "changed": _("nothing in the project has this text"),
    "twice": _("several in the project have this text"),
    "role": _("another agent performs it in the project"),
    "order": _("it has another position in the project"),
}
NOTES = {
    "unwritten": _(
        "This version of CrewAI writes no checkpoint of such a crew (%(detail)s) unless Forkline runs "
        "it. Runs that are started here do write them; values that cannot be stored appear by their name."
    ),
    "untyped": _(
        "The checkpoint does not record the class of what the method %(detail)s returned: methods that "
        "read it get a dictionary. Annotate what %(detail)s returns (-> ThatClass) to restore it."
    ),
}
LABELS = PreflightLabels(
    components=COMPONENTS,
    losses=LOSSES,
    of_unit=_("task %(position)d: %(text)s"),
    matches=MATCHES,
    match_reasons=MATCH_REASONS,
    numbered_matches=frozenset({"task"}),
    notes=NOTES,
)


def components_in(report: Mapping[str, Any]) -> list[Component]:
    """The components that a report lists."""
    return [_component(part) for part in report.get("components") or []]


def unmatched(report: Mapping[str, Any], answers: Mapping[str, str]) -> list[Component]:
    """The project's tasks that match no stored task, so they do not run. Empty until all are matched."""
    questions = [one for one in report.get("questions") or [] if one["kind"] == "task"]
    chosen = {answers.get(one["saved"], "") for one in questions}
    if "" in chosen:
        return []
    titles = {value: title for one in questions for value, title in one["choices"]}
    return [
        _component({"what": "tasks", "name": f"{value}. {title}"[:MAX_NAME], "fate": "lost"})
        for value, title in titles.items()
        if value != GONE and value not in chosen
    ]


def _component(part: Mapping[str, Any]) -> Component:
    unit, agent = part.get("task") or 0, part.get("agent") or ""
    return Component(part["what"], part["name"], part["fate"], _loss_name(part, unit, agent), unit, agent)


def _loss_name(part: Mapping[str, Any], task: int, agent: str) -> str:
    """The name by which a person accepts the loss. forkline_crewai/components.py builds the same."""
    owner = f"task {task}" if task else agent
    return "/".join(str(text) for text in (part["what"], owner, part["name"]) if text)
