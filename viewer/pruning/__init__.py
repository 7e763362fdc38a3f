"""Delete checkpoints at their source: a person chooses rules, sees the exact list, and confirms that list."""

from viewer.pruning.plan import Protected, PrunePlan, is_gone, is_prunable, plan_prune, prune_blocker
from viewer.pruning.prune import Pruned, PruneRefused, fresh_plan, prune
from viewer.pruning.rules import MAX_LATEST, Rules

__all__ = [
    "MAX_LATEST",
    "Protected",
    "PrunePlan",
    "PruneRefused",
    "Pruned",
    "Rules",
    "fresh_plan",
    "is_gone",
    "is_prunable",
    "plan_prune",
    "prune",
    "prune_blocker",
]
