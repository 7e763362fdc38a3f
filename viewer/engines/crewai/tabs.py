"""The tabs of the checkpoint page that CrewAI adds."""

from typing import Any

from viewer.engines.comparable import Section, part_id
from viewer.engines.contents import Tab
from viewer.engines.crewai.comparable import keyed_tasks
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.contents.changes import changes_since
from viewer.messages.marking import gettext_noop as _

TABS = (
    Tab("tasks", _("Tasks"), "engines/crewai/_tasks.html", is_shareable=True),
    Tab("inputs", _("Inputs"), "engines/crewai/_inputs.html", is_shareable=True),
    Tab("state", _("State"), "engines/crewai/_state.html", is_shareable=True),
)
ORDER = ("overview", "tasks", "inputs", "state", "events", "raw")


def tab_context(tab: str, contents: Contents, before: Contents | None) -> dict[str, Any]:
    """Return a tab's context in addition to ``contents``: tasks with their changes since ``before``.

    Each output and each value of the state comes with the id of its part.
    """
    if tab == "state":
        state = contents.flow_state or {}
        return {
            "state_values": [(name, value, part_id(Section.STATE, name)) for name, value in state.items()]
        }
    if tab != "tasks":
        return {}
    changes = changes_since(before, contents) if before else {}
    return {
        "tasks": [
            (task, changes.get(task.id), part_id(Section.OUTPUTS, key)) for task, key in keyed_tasks(contents)
        ],
        "methods": [(method, part_id(Section.OUTPUTS, method.name)) for method in contents.methods],
    }
