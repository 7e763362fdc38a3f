"""The tabs of the checkpoint page that CrewAI adds."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.comparable import Section, part_id
from viewer.engines.contents import Tab
from viewer.engines.crewai.comparable import keyed_tasks
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.contents.changes import changes_since
from viewer.engines.crewai.contents.outputs import newest_output
from viewer.messages.marking import gettext_noop as _

TABS = (
    Tab("output", _("Output"), "engines/crewai/_output.html", is_shareable=True),
    Tab("tasks", _("Tasks"), "engines/crewai/_tasks.html", compares_with="origin", is_shareable=True),
    Tab("inputs", _("Inputs"), "engines/crewai/_inputs.html", is_shareable=True),
    Tab("state", _("State"), "engines/crewai/_state.html", is_shareable=True),
)
ORDER = ("output", "tasks", "inputs", "state", "overview", "events", "raw")


def is_tab_empty(tab: str, contents: Contents) -> bool:
    """Return whether a tab has nothing to show."""
    match tab:
        case "output":
            return newest_output(contents) is None
        case "tasks":
            return not contents.tasks and not contents.methods
        case "inputs":
            return not contents.inputs
        case "state":
            return not contents.flow_state
        case "events":
            return not contents.events
    return False


def tab_context(tab: str, contents: Contents, before: Contents | None) -> dict[str, Any]:
    """Return a tab's context in addition to ``contents``: tasks with their changes since ``before``.

    Each output and each value of the state comes with the id of its part.
    """
    if tab == "output":
        return _newest(contents)
    if tab == "state":
        return {"state_values": _state_values(contents.flow_state or {})}
    if tab != "tasks":
        return {}
    changes = changes_since(before, contents) if before else {}
    return {
        "tasks": [
            (task, changes.get(task.id), part_id(Section.OUTPUTS, key)) for task, key in keyed_tasks(contents)
        ],
        "methods": [(method, part_id(Section.OUTPUTS, method.name)) for method in contents.methods],
    }


def _newest(contents: Contents) -> dict[str, Any]:
    """The newest output, and the id of its part if a unit returned it."""
    output = newest_output(contents)
    keys = {task.id: key for task, key in keyed_tasks(contents)} | {
        method.name: method.name for method in contents.methods
    }
    key = keys.get(output.unit, "") if output and not output.state else ""
    return {
        "output": output,
        "part": part_id(Section.OUTPUTS, key) if key else "",
        "state_values": _state_values(output.state) if output else [],
    }


def _state_values(state: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Each value of a flow's state with its name and the id of its part."""
    return [(name, value, part_id(Section.STATE, name)) for name, value in state.items()]
