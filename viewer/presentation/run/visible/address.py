"""The collapsed parts of a run's list, as parameters of the page's address."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlencode

from django.http import QueryDict

from viewer.models import Checkpoint

# The parameters of an address.
PARAMETERS = ("collapse", "collapsed", "expanded", "collapsed-branch", "started")
# Maximum number of ids or names that an address can have of each kind.
MAX_NAMED = 200


@dataclass(frozen=True, slots=True)
class Collapsing:
    """The collapsed parts of a run. A stretch is named by any checkpoint of it."""

    everything: bool = False
    collapsed: tuple[str, ...] = ()
    # Overrides the others.
    expanded: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    hides_started: bool = False

    @classmethod
    def from_query(cls, query: QueryDict) -> Self:
        """Return the collapsed parts that an address names. Unknown values are ignored."""
        collapsed, expanded, branches = (
            tuple(query.getlist(name)[:MAX_NAMED]) for name in ("collapsed", "expanded", "collapsed-branch")
        )
        everything = query.get("collapse") == "all"
        return cls(everything, collapsed, expanded, branches, query.get("started") == "hidden")

    @property
    def hides_rows(self) -> bool:
        """Whether any row may be hidden."""
        return bool(self.everything or self.collapsed or self.branches or self.hides_started)

    @property
    def query(self) -> str:
        """The parameters, each after an ampersand."""
        pairs = [("collapse", "all")] if self.everything else []
        pairs += [("collapsed", one) for one in self.collapsed]
        pairs += [("expanded", one) for one in self.expanded]
        pairs += [("collapsed-branch", one) for one in self.branches]
        pairs += [("started", "hidden")] if self.hides_started else []
        return f"&{urlencode(pairs)}" if pairs else ""

    def toggled(self, checkpoint: Checkpoint, is_collapsed: bool, named: Collection[str]) -> Self:
        """Return the same with the stretch of a checkpoint expanded or collapsed.

        ``named`` are the ids in the address that already name the stretch.
        """
        collapsed = tuple(one for one in self.collapsed if one not in named)
        expanded = tuple(one for one in self.expanded if one not in named)
        again = replace(self, collapsed=collapsed, expanded=expanded)
        by_rule = self.everything or checkpoint.branch in self.branches
        if is_collapsed:
            return replace(again, expanded=(*expanded, checkpoint.checkpoint_id)) if by_rule else again
        return again if by_rule else replace(again, collapsed=(*collapsed, checkpoint.checkpoint_id))

    def toggled_branch(self, branch: str) -> Self:
        """Return the same with a branch collapsed, or expanded if it was collapsed."""
        others = tuple(one for one in self.branches if one != branch)
        branches = others if branch in self.branches else (*others, branch)
        return replace(self, branches=branches, expanded=())

    def toggled_started(self) -> Self:
        """Return the same with started rows hidden, or shown."""
        return replace(self, hides_started=not self.hides_started)

    @property
    def all_collapsed(self) -> Self:
        """Every stretch collapsed."""
        return replace(self, everything=True, collapsed=(), expanded=(), branches=())

    @property
    def all_expanded(self) -> Self:
        """No stretch collapsed."""
        return replace(self, everything=False, collapsed=(), expanded=(), branches=())


NOTHING_COLLAPSED = Collapsing()
