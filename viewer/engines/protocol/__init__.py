"""What an engine provides. Code outside ``viewer/engines/<name>`` and its runner uses only this interface.

Nothing here assumes the shape of one engine: a step may have several units of work, a location may be a
connection instead of a path, and a run may be an open-ended conversation.
"""

from typing import Any, Protocol

from viewer.engines.protocol.checkpoints import CheckpointReader
from viewer.engines.protocol.contents import C, Contents
from viewer.engines.protocol.description import EngineDescription
from viewer.engines.protocol.jobs import RunnerReports
from viewer.engines.protocol.planning import RunPlanner
from viewer.engines.protocol.projects import ProjectReader
from viewer.engines.root_kinds import NO_KIND, RootKind

__all__ = ["Contents", "Engine", "kind_of"]


class Engine(
    EngineDescription, CheckpointReader[C], RunPlanner[C], ProjectReader, RunnerReports, Protocol[C]
):
    """One engine. Its functions read stored copies and source files; none imports or runs anything.

    A function with a body here is what an engine without the feature needs.
    """


def kind_of(engine: Engine[Any], name: str) -> RootKind:
    """The engine's root kind of this name; ``NO_KIND`` if it has none."""
    return engine.kinds.get(name, NO_KIND)
